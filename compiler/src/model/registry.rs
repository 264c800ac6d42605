//! The registry: models by name, flavors by name, arguments by name.

use super::Llama3;
use crate::nn::{Scope, Tensor, TraceOptions, Traced, trace};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use titan_ir::artifact::HfName;
use titan_ir::{Diag, DiagResult};

/// A model definition. Implement it in any crate and pass the type to [`Registry::with`].
pub trait Model {
    /// What `[model] name` says.
    const NAME: &'static str;
    /// Sizes.
    type Args: Serialize + DeserializeOwned + Clone + std::fmt::Debug;

    /// What `[model] flavor` may say.
    fn flavors() -> Vec<(&'static str, Self::Args)>;

    /// Checks sizes after overrides.
    ///
    /// # Errors
    /// T0440 naming what does not fit.
    fn check(args: &Self::Args) -> DiagResult<()>;

    /// Token ids `[batch, seq_len]` to logits `[batch, seq_len, vocabulary]`; declares the weights on the way.
    fn forward(at: &Scope, args: &Self::Args, tokens: &Tensor) -> Tensor;

    /// Rows of the embedding table: token ids are below it.
    fn vocab_size(args: &Self::Args) -> u64;

    /// Floating-point operations per trained token, for the `tflops` and `mfu` of the step line.
    fn flops_per_token(args: &Self::Args, num_params: u64, seq_len: u64) -> u64;

    /// What Hugging Face calls the weights; empty when there is no such model.
    fn hf_names(args: &Self::Args) -> Vec<HfName>;
}

/// The resolved arguments of a flavor, by name.
pub type ModelArgs = Map<String, Value>;

/// A [`Model`] whose argument type is hidden.
pub trait AnyModel {
    /// See [`Model::NAME`].
    fn name(&self) -> &'static str;
    /// Names of the flavors.
    fn flavors(&self) -> Vec<&'static str>;
    /// The arguments of a flavor, `None` when there is none of that name.
    fn flavor_args(&self, flavor: &str) -> Option<ModelArgs>;
    /// Whether names and types of the arguments are those of the model; nothing more.
    ///
    /// # Errors
    /// T0440 naming what is not.
    fn typecheck(&self, args: &ModelArgs) -> DiagResult<()>;
    /// Checks arguments.
    ///
    /// # Errors
    /// T0440 naming what does not fit.
    fn check(&self, args: &ModelArgs) -> DiagResult<()>;
    /// Traces the model with its loss.
    ///
    /// # Errors
    /// T0440 for arguments that do not fit, or what the first op that does not fit finds.
    fn trace(&self, args: &ModelArgs, options: TraceOptions) -> DiagResult<Traced>;
    /// See [`Model::vocab_size`].
    ///
    /// # Errors
    /// T0440 for arguments that do not fit.
    fn vocab_size(&self, args: &ModelArgs) -> DiagResult<u64>;
    /// See [`Model::flops_per_token`].
    ///
    /// # Errors
    /// T0440 for arguments that do not fit.
    fn flops_per_token(&self, args: &ModelArgs, num_params: u64, seq_len: u64) -> DiagResult<u64>;
    /// See [`Model::hf_names`].
    ///
    /// # Errors
    /// T0440 for arguments that do not fit.
    fn hf_names(&self, args: &ModelArgs) -> DiagResult<Vec<HfName>>;
}

struct Erased<M>(std::marker::PhantomData<M>);

fn typed<M: Model>(args: &ModelArgs) -> DiagResult<M::Args> {
    serde_json::from_value(Value::Object(args.clone())).map_err(|e| {
        Diag::new("T0440", format!("arguments of model {}: {e}", M::NAME)).at("titan.model_args")
    })
}

impl<M: Model> AnyModel for Erased<M> {
    fn name(&self) -> &'static str {
        M::NAME
    }
    fn flavors(&self) -> Vec<&'static str> {
        M::flavors().into_iter().map(|(name, _)| name).collect()
    }
    fn flavor_args(&self, flavor: &str) -> Option<ModelArgs> {
        let (_, args) = M::flavors().into_iter().find(|(name, _)| *name == flavor)?;
        match serde_json::to_value(args) {
            Ok(Value::Object(args)) => Some(args),
            _ => titan_ir::ice!("arguments of {} are not a struct", M::NAME),
        }
    }
    fn typecheck(&self, args: &ModelArgs) -> DiagResult<()> {
        typed::<M>(args).map(drop)
    }
    fn check(&self, args: &ModelArgs) -> DiagResult<()> {
        M::check(&typed::<M>(args)?)
    }
    fn trace(&self, args: &ModelArgs, options: TraceOptions) -> DiagResult<Traced> {
        let args = typed::<M>(args)?;
        M::check(&args)?;
        trace(options, |at, tokens| M::forward(at, &args, tokens))
    }
    fn vocab_size(&self, args: &ModelArgs) -> DiagResult<u64> {
        Ok(M::vocab_size(&typed::<M>(args)?))
    }
    fn flops_per_token(&self, args: &ModelArgs, num_params: u64, seq_len: u64) -> DiagResult<u64> {
        Ok(M::flops_per_token(&typed::<M>(args)?, num_params, seq_len))
    }
    fn hf_names(&self, args: &ModelArgs) -> DiagResult<Vec<HfName>> {
        Ok(M::hf_names(&typed::<M>(args)?))
    }
}

/// The models a compiler knows.
#[derive(Default)]
pub struct Registry {
    models: Vec<Box<dyn AnyModel>>,
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

impl Registry {
    /// Every model of this crate.
    pub fn builtin() -> Self {
        Self::default().with::<Llama3>()
    }

    /// With one more model.
    pub fn with<M: Model + 'static>(mut self) -> Self {
        self.models.push(Box::new(Erased::<M>(std::marker::PhantomData)));
        self
    }

    /// Names of all models.
    pub fn names(&self) -> Vec<&'static str> {
        self.models.iter().map(|m| m.name()).collect()
    }

    /// The model of that name.
    pub fn get(&self, name: &str) -> Option<&dyn AnyModel> {
        self.models.iter().find(|m| m.name() == name).map(AsRef::as_ref)
    }
}
