//! Checks of the whole module: the mesh, placements on it, and names.

use crate::{AxisId, Diag, Diags, Layout, Mesh, Module, Param, Placement, ResultKind, TensorType};
use std::collections::{BTreeMap, BTreeSet};

/// Axes have different names that are words, and ranks.
pub(super) fn check_mesh(mesh: &Mesh, diags: &mut Diags) {
    for (i, axis) in mesh.axes.iter().enumerate() {
        let name = &axis.name;
        let is_word = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !is_word || !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            diags.push(Diag::new(
                "T0135",
                format!("mesh axis {name:?} is not a word of letters, digits and _"),
            ));
        }
        if mesh.axes[..i].iter().any(|a| a.name == *name) {
            diags.push(Diag::new("T0135", format!("the mesh has two axes `{name}`")));
        }
        if axis.size == 0 {
            diags.push(Diag::new("T0135", format!("mesh axis `{name}` has 0 ranks, expected at least 1")));
        }
    }
}

/// Functions, parameters and outputs have different names, and functions agree about the state they share.
pub(super) fn check_names(module: &Module, diags: &mut Diags) {
    let mut funcs = BTreeSet::new();
    let mut states: BTreeMap<&str, (&str, &Param, &TensorType)> = BTreeMap::new();
    for func in &module.funcs {
        if !funcs.insert(&func.name) {
            diags.push(Diag::new("T0136", format!("two functions `{}`", func.name)));
        }
        let mut params = BTreeSet::new();
        for param in &func.params {
            if !params.insert(&param.name) {
                let message = format!("function `{}` has two parameters `{}`", func.name, param.name);
                diags.push(Diag::new("T0136", message));
                continue;
            }
            let Some(ty) = func.types.get(param.value.index()) else { continue };
            let Some((other, first, first_ty)) = states.insert(&param.name, (&func.name, param, ty)) else {
                continue;
            };
            if first_ty != ty || (first.role, &first.init) != (param.role, &param.init) {
                let message = format!(
                    "`{}` is not the same state in functions `{other}` and `{}`",
                    param.name, func.name
                );
                diags.push(Diag::new("T0136", message));
            }
        }
        let mut outputs = BTreeSet::new();
        for result in &func.results {
            if let ResultKind::Output(name) = &result.kind
                && !outputs.insert(name)
            {
                diags.push(Diag::new("T0136", format!("function `{}` has two outputs `{name}`", func.name)));
            }
        }
    }
}

/// What is wrong with a layout of a tensor of this rank.
pub(super) fn layout_fault(layout: &Layout, rank: usize, mesh: &Mesh) -> Option<String> {
    layout.iter().find_map(|(axis, placement): (AxisId, Placement)| {
        if axis.index() >= mesh.axes.len() {
            return Some(format!("the mesh has no axis {}", axis.0));
        }
        match placement {
            Placement::Shard(dim) if usize::from(dim) >= rank => {
                Some(format!("dimension {dim} is cut, of {rank} dimensions"))
            }
            Placement::Shard(_) | Placement::Partial(_) => None,
        }
    })
}
