//! What the training loop asks of a rank.

use super::{Ascend, arena, diagnose};
use crate::device::{Device, Inputs, RankError, StepError, Write};
use crate::diagnose::{Finding, Stop};
use crate::profile;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use titan_ir::DiagResult;
use titan_ir::plan::PlanTensor;

impl Device for Ascend<'_> {
    fn write_state(&mut self, tensor: &PlanTensor, len: u64, write: &mut Write<'_>) -> Result<(), RankError> {
        let mut values = self.staging.borrow_mut();
        values.resize(len as usize, 0.0);
        write(&mut values, &self.pool)?;
        // SAFETY: the tensor is in the arena, and at least as long.
        unsafe { self.context.write(self.state_at(tensor), bytemuck::cast_slice(&values))? };
        Ok(())
    }

    fn read_state(
        &self,
        tensor: &PlanTensor,
        len: u64,
        read: &mut dyn FnMut(&[f32]),
    ) -> Result<(), RankError> {
        let mut values = self.staging.borrow_mut();
        values.resize(len as usize, 0.0);
        // SAFETY: the tensor is in the arena, at least as long, and no step is under way.
        unsafe { self.context.read(bytemuck::cast_slice_mut(&mut values), self.state_at(tensor))? };
        read(&values);
        Ok(())
    }

    fn step(&mut self, inputs: &Inputs<'_>) -> Result<(), StepError> {
        self.staging = RefCell::default();
        if inputs.step > 1 && !self.manner.eager && self.graphs.is_empty() {
            self.abandoned = true;
            self.capture()?;
        }
        self.abandoned = true;
        let result = self.run_step(inputs);
        self.abandoned = matches!(result, Err(StepError::Ended(_)));
        result?;
        if let Some(profile) = &mut self.profile {
            profile.num_steps += 1;
        }
        Ok(())
    }

    fn outputs(&self) -> [f32; 3] {
        self.ports.outputs()
    }

    fn explain(&mut self, inputs: &Inputs<'_>, at: Stop) -> Result<Option<Finding>, RankError> {
        self.abandoned = true;
        let found = diagnose::find(self, inputs, at)?;
        self.abandoned = false;
        Ok(found)
    }

    fn memory_bytes(&self) -> u64 {
        self.program.arena_bytes + self.program.memory.communication_bytes
    }

    fn capacity_bytes(&self) -> u64 {
        let soc_bytes = self.code.soc.hbm_gib << 30;
        arena::free_bytes(&self.context).map_or(soc_bytes, |(_, total)| total)
    }

    fn peak_flops(&self) -> f64 {
        // A cube core multiplies 16 x 16 x 16 bf16 in a cycle; as others do, it is the peak for every type.
        f64::from(self.code.soc.cube_cores) * 8192.0 * f64::from(self.code.soc.mhz) * 1e6
    }

    fn profile(&self) -> Option<String> {
        let what = format!("{} call by call", self.code.soc.name);
        self.profile.as_ref().map(|profile| profile::table(profile, &self.loaded.plan, &what))
    }

    fn facts(&self) -> Value {
        let mut operators: BTreeMap<&str, (u64, u64, u64)> = BTreeMap::new();
        for (name, demanded_bytes, is_one_shot) in self.calls.operators() {
            let (count, most, one_shot) = operators.entry(name).or_default();
            (*count, *most, *one_shot) =
                (*count + 1, demanded_bytes.max(*most), *one_shot + u64::from(is_one_shot));
        }
        let operators = operators.iter().map(|(name, (count, most, one_shot))| {
            json!({ "name": name, "calls": count, "most_workspace_bytes": most, "planned_anew": one_shot })
        });
        let free = arena::free_bytes(&self.context);
        let num_graphs = self.graphs.iter().flatten().flatten().count();
        json!({
            "rank": self.context.rank,
            "device": self.context.device,
            "last_call": self.context.last_place(),
            "captured": num_graphs > 0,
            "num_graphs": num_graphs,
            "free_bytes": free.map(|(free, _)| free),
            "total_bytes": free.map(|(_, total)| total),
            "operators": operators.collect::<Vec<_>>(),
        })
    }

    fn close(self: Box<Self>) -> DiagResult<()> {
        let context = Rc::clone(&self.context);
        if self.abandoned {
            for stream in &self.streams {
                // SAFETY: the streams are this context's. Where it fails there is nothing more to do.
                let _ = unsafe { context.acl().aclrtStreamAbort(stream.get()) };
            }
        }
        let abandoned = self.abandoned;
        drop(self);
        // After a failure, that failure is what counts.
        context.take_fault().filter(|_| !abandoned).map_or(Ok(()), Err)
    }
}
