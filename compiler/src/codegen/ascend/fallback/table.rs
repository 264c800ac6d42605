//! Tables shared by rows and repeated along columns.

use crate::codegen::ascend::emitter::Emitter;
use titan_ir::ascend::{Access, Arg, TensorArg, contiguous_strides};

/// Consecutive rows that one broadcasting copy writes: `reps` times `groups` rows of the table, each for `div` rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    /// First row written.
    to: u64,
    reps: u64,
    groups: u64,
    div: u64,
    /// First row of the table.
    from: u64,
}

/// The copies that rows `first..first + rows` of the domain are made of.
fn runs(row_div: u64, row_mod: u64, first: u64, rows: u64) -> Vec<Run> {
    let period = row_div * row_mod;
    let mut runs = Vec::new();
    let mut done = 0;
    while done < rows {
        let (at, left) = ((first + done) % period, rows - done);
        let (group, inside) = (at / row_div, at % row_div);
        let run = |reps, groups, div| Run { to: done, reps, groups, div, from: group };
        let run = if at == 0 && left >= period {
            run(left / period, row_mod, row_div)
        } else if inside == 0 && left.min(period - at) >= row_div {
            run(1, left.min(period - at) / row_div, row_div)
        } else {
            run(1, 1, left.min(row_div - inside))
        };
        done += run.reps * run.groups * run.div;
        runs.push(run);
    }
    runs
}

/// Writes a table `[row_mod, width]` to rows of `to`, the first of which is row `first` of the domain.
pub(super) fn expand(e: &mut Emitter<'_>, table: &TensorArg, row_div: u64, first: u64, to: &TensorArg) {
    let (row_mod, width) = (table.dims[0], table.dims[1]);
    let (rows, cols) = (to.dims[0], to.dims[1]);
    for run in runs(row_div, row_mod, first, rows) {
        let dims = vec![run.reps, run.groups, run.div, cols / width, width];
        let written = TensorArg {
            strides: contiguous_strides(&dims),
            dims,
            at: to.at + run.to * cols * to.element.size_bytes(),
            access: Access::Write,
            ..to.clone()
        };
        let dims = vec![1, run.groups, 1, 1, width];
        let read = TensorArg {
            strides: contiguous_strides(&dims),
            dims,
            at: table.at + run.from * width * table.element.size_bytes(),
            ..table.clone()
        };
        e.operator("aclnnInplaceCopy", vec![Arg::Tensor(written), Arg::Tensor(read)]);
    }
}

#[cfg(test)]
mod tests {
    use super::runs;

    #[test]
    fn runs_give_every_row_the_row_of_the_table_it_reads() {
        for (div, modulus) in [(1, 5), (3, 4), (2, 1), (1, 1)] {
            for first in 0..13 {
                for rows in 1..40 {
                    let mut read = Vec::new();
                    for run in runs(div, modulus, first, rows) {
                        assert_eq!(run.to as usize, read.len());
                        for _ in 0..run.reps {
                            for group in 0..run.groups {
                                read.extend((0..run.div).map(|_| run.from + group));
                            }
                        }
                    }
                    let wanted: Vec<u64> = (first..first + rows).map(|i| i / div % modulus).collect();
                    assert_eq!(read, wanted, "div {div}, mod {modulus}, rows {first}..{}", first + rows);
                }
            }
        }
    }
}
