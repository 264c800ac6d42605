//! Text of a tensor function, one operation a line.

use std::fmt::Write;

/// A value of the function: its name and type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Value {
    pub(super) name: String,
    pub(super) dims: Vec<u64>,
    pub(super) element: &'static str,
}

impl Value {
    pub(super) fn ty(&self) -> String {
        tensor_type(&self.dims, self.element)
    }
}

/// `tensor<4x8xf32>`.
pub(super) fn tensor_type(dims: &[u64], element: &str) -> String {
    let mut text = "tensor<".to_owned();
    for dim in dims {
        let _ = write!(text, "{dim}x");
    }
    text + element + ">"
}

fn list(numbers: impl Iterator<Item = usize>) -> String {
    numbers.map(|n| n.to_string()).collect::<Vec<_>>().join(", ")
}

/// The body of a function, as it grows. Every method appends operations and gives the result of the last.
#[derive(Debug, Default)]
pub(super) struct Body {
    lines: String,
    num_values: usize,
}

impl Body {
    fn value(&mut self, dims: &[u64], element: &'static str) -> Value {
        self.num_values += 1;
        Value { name: format!("%{}", self.num_values - 1), dims: dims.to_vec(), element }
    }

    fn push(&mut self, dims: &[u64], element: &'static str, operation: &str) -> Value {
        let value = self.value(dims, element);
        let _ = writeln!(self.lines, "  {} = {operation}", value.name);
        value
    }

    /// `operation %a, %b : type` of operands and a result of one type.
    pub(super) fn same(&mut self, operation: &str, operands: &[&Value]) -> Value {
        let first = operands[0];
        let names: Vec<&str> = operands.iter().map(|v| v.name.as_str()).collect();
        self.push(&first.dims, first.element, &format!("{operation} {} : {}", names.join(", "), first.ty()))
    }

    /// A conversion of the elements.
    pub(super) fn convert(&mut self, operation: &str, a: &Value, element: &'static str) -> Value {
        let to = tensor_type(&a.dims, element);
        self.push(&a.dims, element, &format!("{operation} {} : {} to {to}", a.name, a.ty()))
    }

    /// The same f32, given as bits, everywhere.
    pub(super) fn splat(&mut self, dims: &[u64], bits: u32) -> Value {
        let ty = tensor_type(dims, "f32");
        self.push(dims, "f32", &format!("arith.constant dense<0x{bits:08X}> : {ty}"))
    }

    /// `predicate(a, b) ? then : other`, for each element.
    pub(super) fn select(&mut self, predicate: &str, [a, b, then, other]: [&Value; 4]) -> Value {
        let test =
            self.push(&a.dims, "i1", &format!("arith.cmpf {predicate}, {}, {} : {}", a.name, b.name, a.ty()));
        self.push(
            &then.dims,
            "f32",
            &format!(
                "arith.select {}, {}, {} : {}, {}",
                test.name,
                then.name,
                other.name,
                test.ty(),
                then.ty()
            ),
        )
    }

    fn empty(&mut self, dims: &[u64], element: &'static str) -> Value {
        let ty = tensor_type(dims, element);
        self.push(dims, element, &format!("tensor.empty() : {ty}"))
    }

    /// Repeats a value along the dimensions `added` of `dims`.
    pub(super) fn broadcast(&mut self, a: &Value, dims: &[u64], added: &[usize]) -> Value {
        if added.is_empty() {
            return a.clone();
        }
        let out = self.empty(dims, a.element);
        self.push(
            dims,
            a.element,
            &format!(
                "linalg.broadcast ins({} : {}) outs({} : {}) dimensions = [{}]",
                a.name,
                a.ty(),
                out.name,
                out.ty(),
                list(added.iter().copied())
            ),
        )
    }

    /// Reduces the dimensions `reduced` from the neutral element of `combiner`, given as bits.
    pub(super) fn reduce(&mut self, combiner: &str, neutral: u32, a: &Value, reduced: &[usize]) -> Value {
        let dims: Vec<u64> =
            a.dims.iter().enumerate().filter(|(i, _)| !reduced.contains(i)).map(|(_, d)| *d).collect();
        let start = self.push(&[], "f32", &format!("arith.constant 0x{neutral:08X} : f32"));
        let out = self.empty(&dims, a.element);
        let filled = self.push(
            &dims,
            a.element,
            &format!(
                "linalg.fill ins({} : f32) outs({} : {}) -> {}",
                start.name,
                out.name,
                out.ty(),
                out.ty()
            ),
        );
        self.push(
            &dims,
            a.element,
            &format!(
                "linalg.reduce {{ {combiner} }} ins({} : {}) outs({} : {}) dimensions = [{}]",
                a.name,
                a.ty(),
                filled.name,
                filled.ty(),
                list(reduced.iter().copied())
            ),
        )
    }

    /// Swaps elements `2i` and `2i + 1` of the last dimension: the device has instructions that take such pairs apart and join them.
    pub(super) fn swap_pairs(&mut self, a: &Value) -> Value {
        let (rest, last) = a.dims.split_at(a.dims.len() - 1);
        let half = [rest, &[last[0] / 2]].concat();
        let ones = vec!["1"; rest.len()];
        let place = |parity: &str| {
            let offsets = [vec!["0"; rest.len()], vec![parity]].concat().join(", ");
            let sizes = half.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
            let strides = [ones.clone(), vec!["2"]].concat().join(", ");
            format!("[{offsets}] [{sizes}] [{strides}]")
        };
        let half_type = tensor_type(&half, a.element);
        let [even, odd] = ["0", "1"].map(|parity| {
            let operation =
                format!("tensor.extract_slice {}{} : {} to {half_type}", a.name, place(parity), a.ty());
            self.push(&half, a.element, &operation)
        });
        let mut out = self.empty(&a.dims, a.element);
        for (part, parity) in [(odd, "0"), (even, "1")] {
            let operation = format!(
                "tensor.insert_slice {} into {}{} : {half_type} into {}",
                part.name,
                out.name,
                place(parity),
                out.ty()
            );
            out = self.push(&a.dims, a.element, &operation);
        }
        out
    }

    /// A tensor of one element without dimensions.
    pub(super) fn scalar(&mut self, a: &Value) -> Value {
        self.push(
            &[],
            a.element,
            &format!("tensor.collapse_shape {} [] : {} into tensor<{}>", a.name, a.ty(), a.element),
        )
    }

    /// A module of one function with this body.
    pub(super) fn function(self, symbol: &str, args: &[Value], results: &[Value]) -> String {
        let join = |items: Vec<String>| items.join(", ");
        let typed = join(args.iter().map(|v| format!("{}: {}", v.name, v.ty())).collect());
        let names = join(results.iter().map(|v| v.name.clone()).collect());
        let types = join(results.iter().map(Value::ty).collect());
        format!(
            "func.func @{symbol}({typed}) -> ({types})\n\
             attributes {{hacc.entry, hacc.function_kind = #hacc.function_kind<DEVICE>}} {{\n\
             {}  return {names} : {types}\n}}\n",
            self.lines
        )
    }
}
