//! A decoder like Llama, built by hand so that tests of passes do not depend on the tracer.
//!
//! Legend of dimensions: b batch, s tokens, d width, h heads, g key heads, e head dimension, f feed-forward width, v vocabulary.

use titan_ir::ops::{
    Add, Attention, Cast, CrossEntropy, Einsum, Embedding, Full, Max, Min, Mul, ReduceSum, Reshape, Reshard,
    RmsNorm, Rope, Silu,
};
use titan_ir::{
    DType, DiagResult, Func, Init, Layout, Mesh, Module, Phase, Placement, ResultKind, Role, Stage,
    TensorType, ValueId,
};

/// Sizes of a decoder.
#[derive(Debug, Clone)]
pub struct Decoder {
    /// Blocks.
    pub num_layers: u64,
    /// Width.
    pub dim: u64,
    /// Query heads.
    pub num_heads: u64,
    /// Key and value heads.
    pub num_kv_heads: u64,
    /// Feed-forward width.
    pub hidden: u64,
    /// Tokens of the vocabulary.
    pub vocab: u64,
    /// Sequences of all ranks.
    pub batch: u64,
    /// Tokens of a sequence.
    pub seq: u64,
    /// Element type of weights and activations in use.
    pub compute: DType,
    /// Ranks; weights are cut on `dp_shard`, sequences on every axis.
    pub mesh: Mesh,
}

impl Default for Decoder {
    fn default() -> Self {
        Self {
            num_layers: 2,
            dim: 12,
            num_heads: 2,
            num_kv_heads: 1,
            hidden: 20,
            vocab: 11,
            batch: 2,
            seq: 3,
            compute: DType::F32,
            mesh: Mesh::default(),
        }
    }
}

impl Decoder {
    /// The traced module: outputs `loss`, summed over tokens, and `num_tokens`.
    ///
    /// # Errors
    /// None for sizes that fit each other.
    pub fn module(&self) -> DiagResult<Module> {
        let mut t = Trace { spec: self, func: Func::new("step") };
        t.build()?;
        Ok(Module { stage: Stage::Graph, mesh: self.mesh.clone(), funcs: vec![t.func] })
    }
}

struct Trace<'a> {
    spec: &'a Decoder,
    func: Func,
}

impl Trace<'_> {
    fn build(&mut self) -> DiagResult<()> {
        let spec = self.spec.clone();
        let ids_bs = TensorType::new(DType::I32, &[spec.batch, spec.seq]).with_layout(self.batch_layout());
        let tokens_bs = self.func.add_param("tokens", ids_bs.clone(), Role::Input, Init::Host);
        let labels_bs = self.func.add_param("labels", ids_bs, Role::Input, Init::Host);
        let head_dim = spec.dim / spec.num_heads;
        let [cos_se, sin_se] = [("rope.cos", false), ("rope.sin", true)].map(|(name, sin)| {
            let ty = TensorType::new(DType::F32, &[spec.seq, head_dim]);
            self.func.add_param(name, ty, Role::Buffer, Init::Rope { theta: 1e4, scaling: None, sin })
        });
        let table_vd = self.weight("tok_embeddings", &[spec.vocab, spec.dim])?;
        let mut x_bsd = self.func.emit1(Embedding, &[table_vd, tokens_bs])?;
        for layer in 0..spec.num_layers {
            x_bsd = self.block(&format!("layers.{layer}"), x_bsd, cos_se, sin_se)?;
        }
        let x_bsd = self.norm("norm", x_bsd)?;
        let logits_bsv = self.linear("output", x_bsd, spec.dim, spec.vocab)?;
        self.loss(logits_bsv, labels_bs)
    }

    fn batch_layout(&self) -> Layout {
        let axes = ["dp_replicate", "dp_shard"].iter().filter_map(|name| self.spec.mesh.axis(name));
        axes.fold(Layout::replicate(), |layout, axis| layout.with(axis, Placement::Shard(0)))
    }

    /// A weight, as its module uses it: cast, then gathered.
    fn weight(&mut self, path: &str, dims: &[u64]) -> DiagResult<ValueId> {
        self.func.loc = self.func.intern(path);
        let stored = match self.spec.mesh.axis("dp_shard") {
            Some(axis) => Layout::replicate().with(axis, Placement::Shard(0)),
            None => Layout::replicate(),
        };
        let ty = TensorType::new(DType::F32, dims).with_layout(stored);
        let mut weight =
            self.func.add_param(&format!("{path}.weight"), ty, Role::Param, Init::Normal { std: 0.02 });
        if self.spec.compute != DType::F32 {
            weight = self.func.emit1(Cast { to: self.spec.compute }, &[weight])?;
        }
        self.func.emit1(Reshard { to: Layout::replicate(), reduce: None }, &[weight])
    }

    fn norm(&mut self, path: &str, x_bsd: ValueId) -> DiagResult<ValueId> {
        let gain_d = self.weight(path, &[self.spec.dim])?;
        Ok(self.func.emit(RmsNorm { eps: 1e-5 }, &[x_bsd, gain_d])?[0])
    }

    fn linear(&mut self, path: &str, x_bsk: ValueId, num_in: u64, num_out: u64) -> DiagResult<ValueId> {
        let w_nk = self.weight(path, &[num_out, num_in])?;
        self.func.emit1(Einsum { spec: "bsk,nk->bsn".to_owned(), out: self.spec.compute }, &[x_bsk, w_nk])
    }

    fn block(&mut self, path: &str, x_bsd: ValueId, cos_se: ValueId, sin_se: ValueId) -> DiagResult<ValueId> {
        let spec = self.spec.clone();
        let n_bsd = self.norm(&format!("{path}.attention_norm"), x_bsd)?;
        let o_bsd = self.attention(&format!("{path}.attention"), n_bsd, cos_se, sin_se)?;
        self.func.loc = self.func.intern(path);
        let x_bsd = self.func.emit1(Add, &[x_bsd, o_bsd])?;
        let n_bsd = self.norm(&format!("{path}.ffn_norm"), x_bsd)?;
        let a_bsf = self.linear(&format!("{path}.feed_forward.w1"), n_bsd, spec.dim, spec.hidden)?;
        let a_bsf = self.func.emit1(Silu, &[a_bsf])?;
        let b_bsf = self.linear(&format!("{path}.feed_forward.w3"), n_bsd, spec.dim, spec.hidden)?;
        let h_bsf = self.func.emit1(Mul, &[a_bsf, b_bsf])?;
        let y_bsd = self.linear(&format!("{path}.feed_forward.w2"), h_bsf, spec.hidden, spec.dim)?;
        self.func.loc = self.func.intern(path);
        self.func.emit1(Add, &[x_bsd, y_bsd])
    }

    fn attention(
        &mut self,
        path: &str,
        x_bsd: ValueId,
        cos_se: ValueId,
        sin_se: ValueId,
    ) -> DiagResult<ValueId> {
        let spec = self.spec.clone();
        let head_dim = spec.dim / spec.num_heads;
        let heads = |t: &mut Self, name: &str, num: u64| {
            let y_bsn = t.linear(&format!("{path}.{name}"), x_bsd, spec.dim, num * head_dim)?;
            t.func.emit1(Reshape::new(&[spec.batch, spec.seq, num, head_dim]), &[y_bsn])
        };
        let q_bshe = heads(self, "wq", spec.num_heads)?;
        let k_bsge = heads(self, "wk", spec.num_kv_heads)?;
        let v_bsge = heads(self, "wv", spec.num_kv_heads)?;
        self.func.loc = self.func.intern(path);
        let q_bshe = self.func.emit1(Rope { inverse: false }, &[q_bshe, cos_se, sin_se])?;
        let k_bsge = self.func.emit1(Rope { inverse: false }, &[k_bsge, cos_se, sin_se])?;
        let op = Attention { causal: true, scale: (head_dim as f64).powf(-0.5) };
        let o_bshe = self.func.emit(op, &[q_bshe, k_bsge, v_bsge])?[0];
        let o_bsd = self.func.emit1(Reshape::new(&[spec.batch, spec.seq, spec.dim]), &[o_bshe])?;
        self.linear(&format!("{path}.wo"), o_bsd, spec.dim, spec.dim)
    }

    /// The summed loss and the number of labels that are not -100.
    fn loss(&mut self, logits_bsv: ValueId, labels_bs: ValueId) -> DiagResult<()> {
        self.func.loc = self.func.intern("loss");
        let nll_bs = self.func.emit(CrossEntropy, &[logits_bsv, labels_bs])?[0];
        let loss = self.func.emit1(ReduceSum::all(), &[nll_bs])?;
        let labels_bs = self.func.emit1(Cast { to: DType::F32 }, &[labels_bs])?;
        let [zero, one, minus_one] = [0.0, 1.0, -1.0].map(|c| self.func.emit1(Full::scalar(c), &[]));
        let at_least_bs = self.func.emit1(Max, &[labels_bs, minus_one?])?;
        let at_most_bs = self.func.emit1(Min, &[at_least_bs, zero?])?;
        let valid_bs = self.func.emit1(Add, &[at_most_bs, one?])?;
        let num_tokens = self.func.emit1(ReduceSum::all(), &[valid_bs])?;
        self.func.phase = Phase::Forward;
        self.func.add_result(loss, ResultKind::Output("loss".to_owned()));
        self.func.add_result(num_tokens, ResultKind::Output("num_tokens".to_owned()));
        Ok(())
    }
}
