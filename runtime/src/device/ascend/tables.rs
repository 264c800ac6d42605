//! What the arena holds before the first step: zeros in the state, and the constant tables.

use super::arena::Arena;
use super::context::Context;
use titan_ir::Diag;
use titan_ir::ascend::{Program, TableFill};

/// Writes them.
///
/// # Errors
/// T0742 when the device does not take them.
pub(super) fn write(context: &Context<'_>, program: &Program, arena: &Arena<'_>) -> Result<(), Diag> {
    let state = program.state;
    if state.size_bytes > 0 {
        let (at, len) = (arena.at(state.at, state.size_bytes), state.size_bytes as usize);
        // SAFETY: the state is in the arena.
        context.check(unsafe { context.acl().aclrtMemset(at, len, 0, len) })?;
    }
    for table in &program.tables {
        let bytes = bytes(&table.fill);
        // SAFETY: the table is in the arena, and as long.
        unsafe { context.write(arena.at(table.at, bytes.len() as u64), &bytes)? };
    }
    Ok(())
}

/// The bytes of a table.
fn bytes(fill: &TableFill) -> Vec<u8> {
    match *fill {
        TableFill::UpperTriangle { rows, cols } => {
            (0..rows).flat_map(|row| (0..cols).map(move |col| u8::from(col > row))).collect()
        }
        TableFill::Iota { len } => (0..len).flat_map(|i| (i as f32).to_ne_bytes()).collect(),
        TableFill::Constant { bits, len } => (0..len).flat_map(|_| bits.to_ne_bytes()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_as_long_as_they_say() {
        let triangle = TableFill::UpperTriangle { rows: 3, cols: 4 };
        assert_eq!(bytes(&triangle), [0, 1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 1]);
        let floats = |values: &[f32]| values.iter().flat_map(|v| v.to_ne_bytes()).collect::<Vec<u8>>();
        assert_eq!(bytes(&TableFill::Iota { len: 3 }), floats(&[0.0, 1.0, 2.0]));
        assert_eq!(bytes(&TableFill::Constant { bits: 1.0f32.to_bits(), len: 2 }), floats(&[1.0, 1.0]));
        for fill in [triangle, TableFill::Iota { len: 3 }, TableFill::Constant { bits: 7, len: 2 }] {
            assert_eq!(bytes(&fill).len() as u64, fill.size_bytes());
        }
    }
}
