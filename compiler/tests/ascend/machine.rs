//! Executes the calls of one rank.

use crate::memory::Memory;
use crate::operators;
use titan_ir::ascend::{Access, Arg, Call, DeviceKernels, Element, Family, Soc, TableFill, TensorArg};
use titan_ir::kernel::Cols;
use titan_ir::kernel::eval::eval_row;

/// The arguments of an operator, and the memory they are in.
pub(crate) struct Operands<'a> {
    pub(crate) args: &'a [Arg],
    pub(crate) memory: &'a mut Memory,
    /// Whether the device stores products of bf16 in f32.
    pub(crate) stores_f32: bool,
}

impl Operands<'_> {
    pub(crate) fn tensor(&self, k: usize) -> &TensorArg {
        match &self.args[k] {
            Arg::Tensor(tensor) => tensor,
            other => panic!("argument {k} is {other:?}"),
        }
    }

    pub(crate) fn scalar(&self, k: usize) -> f64 {
        match self.args[k] {
            Arg::Scalar(Element::F32, value) => f64::from(value as f32),
            ref other => panic!("argument {k} is {other:?}"),
        }
    }

    pub(crate) fn read(&self, k: usize) -> Vec<f64> {
        self.memory.read(self.tensor(k))
    }

    /// Repeated to these dimensions as torch does.
    pub(crate) fn expanded(&self, k: usize, dims: &[u64]) -> Vec<f64> {
        let mut view = self.tensor(k).clone();
        while view.dims.len() < dims.len() {
            view.dims.insert(0, 1);
            view.strides.insert(0, 0);
        }
        for ((have, stride), &want) in view.dims.iter_mut().zip(&mut view.strides).zip(dims) {
            assert!(*have == want || *have == 1, "{:?} does not become {dims:?}", self.tensor(k).dims);
            if *have != want {
                (*have, *stride) = (want, 0);
            }
        }
        self.memory.read(&view)
    }

    pub(crate) fn write(&mut self, k: usize, values: &[f64]) {
        let tensor = self.tensor(k).clone();
        self.memory.write(&tensor, values);
    }

    pub(crate) fn map(&mut self, from: usize, to: usize, f: impl Fn(f64) -> f64) {
        assert_eq!(self.tensor(from).dims, self.tensor(to).dims);
        let values: Vec<f64> = self.read(from).into_iter().map(f).collect();
        self.write(to, &values);
    }

    /// A function of arguments 0 and 1, made from the scalar argument 2 if the result is argument 3.
    pub(crate) fn broadcast2<F: Fn(f64, f64) -> f64>(&mut self, out: usize, f: impl Fn(f64) -> F) {
        let dims = self.tensor(out).dims.clone();
        let (a, b) = (self.tensor(0), self.tensor(1));
        assert_eq!(a.element, b.element, "operands of one type");
        let joined: Vec<u64> = a.dims.iter().zip(&b.dims).map(|(x, y)| *x.max(y)).collect();
        assert_eq!(joined, dims, "the result of broadcasting");
        let f = f(if out == 3 { self.scalar(2) } else { 1.0 });
        let (x, y) = (self.expanded(0, &dims), self.expanded(1, &dims));
        let values: Vec<f64> = x.iter().zip(&y).map(|(&x, &y)| f(x, y)).collect();
        self.write(out, &values);
    }
}

/// Writes a table.
pub(crate) fn fill(memory: &mut Memory, at: u64, fill: &TableFill) {
    let (element, values): (Element, Vec<f64>) = match *fill {
        TableFill::UpperTriangle { rows, cols } => {
            let above = |i: u64| f64::from(u8::from(i % cols > i / cols));
            (Element::U8, (0..rows * cols).map(above).collect())
        }
        TableFill::Iota { len } => (Element::F32, (0..len).map(|i| i as f64).collect()),
        TableFill::Constant { bits, len } => {
            (Element::F32, vec![f64::from(f32::from_bits(bits)); len as usize])
        }
    };
    memory.write(&TensorArg::contiguous(element, &[values.len() as u64], at, Access::Write), &values);
}

/// Runs a call that concerns no other rank.
pub(crate) fn call(call: &Call, kernels: &DeviceKernels, soc: &Soc, memory: &mut Memory) {
    match call {
        Call::Operator { name, args } => {
            check_overlap(name, args);
            let stores_f32 = soc.family == Family::A5;
            operators::run(name, &mut Operands { args, memory, stores_f32 });
        }
        Call::Kernel { kernel, args } => launch(kernels, *kernel, args, memory),
        Call::Copy { src, dst, size_bytes } => {
            let (src, dst, len) = (*src as usize, *dst as usize, *size_bytes as usize);
            memory.bytes.copy_within(src..src + len, dst);
        }
        Call::Zero { dst, size_bytes } => {
            memory.bytes[*dst as usize..(dst + size_bytes) as usize].fill(0);
        }
        Call::Record { .. } | Call::Wait { .. } => {}
        Call::Collective { .. } | Call::RankSlice { .. } => panic!("other ranks are concerned"),
    }
}

/// No operator may write what it reads, except where it says so.
fn check_overlap(name: &str, args: &[Arg]) {
    let tensors: Vec<&TensorArg> = args
        .iter()
        .filter_map(|arg| match arg {
            Arg::Tensor(tensor) if tensor.num_elements() > 0 => Some(tensor),
            _ => None,
        })
        .collect();
    for (i, a) in tensors.iter().enumerate().filter(|(_, t)| t.access.writes()) {
        for (_, b) in tensors.iter().enumerate().filter(|&(j, _)| j != i) {
            let ((a0, a1), (b0, b1)) = (operators::size(a), operators::size(b));
            assert!(a1 <= b0 || b1 <= a0, "{name} writes {a:?} and uses {b:?}");
        }
    }
}

/// A generated kernel, by its meaning.
fn launch(kernels: &DeviceKernels, index: u32, args: &[u64], memory: &mut Memory) {
    let device = &kernels.kernels[index as usize];
    let kernel = &device.kernel;
    assert_eq!(args.len(), device.args.len());
    let (rows, len) = match kernel.cols {
        Cols::Static(_) => (device.rows, None),
        Cols::Flat { .. } => (1, Some(device.rows)),
    };
    let signature = kernel.signature(rows, len);
    let view = |(&at, &(dtype, elements)): (&u64, &(titan_ir::DType, u64))| {
        TensorArg::contiguous(Element::from(dtype), &[elements], at, Access::Read)
    };
    let inputs: Vec<Vec<f64>> = args.iter().zip(&signature.ins).map(view).map(|t| memory.read(&t)).collect();
    let slices: Vec<&[f64]> = inputs.iter().map(Vec::as_slice).collect();
    let outputs = eval_row(kernel, rows, len, &slices, true);
    let places = &args[args.len() - signature.outs.len()..];
    for ((at, out), values) in places.iter().zip(&signature.outs).zip(outputs) {
        memory.write(&view((at, out)), &values);
    }
}

/// Scores of one query head: queries, keys, and what may be seen.
struct Attention {
    batch: usize,
    tokens: usize,
    keys: usize,
    heads: usize,
    kv_heads: usize,
    width: usize,
    scale: f64,
    causal: bool,
}

impl Attention {
    fn of(o: &Operands<'_>, first_setting: usize) -> Self {
        let (q, k) = (o.tensor(0).dims.clone(), o.tensor(1).dims.clone());
        let number = |k: usize| match o.args[k] {
            Arg::I64(n) => n,
            ref other => panic!("argument {k} is {other:?}"),
        };
        let Arg::F64(scale) = o.args[first_setting + 3] else { panic!("scale") };
        assert_eq!(o.args[first_setting + 8], Arg::Text("BSND".to_owned()));
        assert_eq!(number(first_setting + 7), q[2] as i64);
        let causal = match number(first_setting + 10) {
            0 => false,
            2 => true,
            mode => panic!("sparse mode {mode}"),
        };
        let mask = &o.args[if first_setting == 7 { 6 } else { 7 }];
        assert_eq!(*mask != Arg::Null, causal, "the mask of a mode that has one");
        let size = |x: u64| x as usize;
        Self {
            batch: size(q[0]),
            tokens: size(q[1]),
            keys: size(k[1]),
            heads: size(q[2]),
            kv_heads: size(k[2]),
            width: size(q[3]),
            scale,
            causal,
        }
    }

    /// Every query with its position in q, the row of its scores, and per visible key the position in k.
    fn queries(&self) -> Vec<(usize, usize, Vec<usize>)> {
        let mut queries = Vec::new();
        for b in 0..self.batch {
            for h in 0..self.heads {
                for s in 0..self.tokens {
                    let q = ((b * self.tokens + s) * self.heads + h) * self.width;
                    let group = h / (self.heads / self.kv_heads);
                    let seen = if self.causal { self.keys.min(s + 1) } else { self.keys };
                    let k = |t: usize| ((b * self.keys + t) * self.kv_heads + group) * self.width;
                    queries.push((q, (b * self.heads + h) * self.tokens + s, (0..seen).map(k).collect()));
                }
            }
        }
        queries
    }

    fn dot(&self, a: &[f64], i: usize, b: &[f64], j: usize) -> f64 {
        (0..self.width).map(|e| a[i + e] * b[j + e]).sum()
    }
}

/// Softmax maxima and sums `[b, n, s, 8]`, then the result.
pub(crate) fn attention(o: &mut Operands<'_>) {
    let shape = Attention::of(o, 7);
    let [q, k, v] = [0, 1, 2].map(|i| o.read(i));
    let (mut out, mut maxima, mut sums) = (vec![0.0; q.len()], Vec::new(), Vec::new());
    for (at, _, keys) in shape.queries() {
        let scores: Vec<f64> = keys.iter().map(|&j| shape.scale * shape.dot(&q, at, &k, j)).collect();
        let max = scores.iter().fold(f64::NEG_INFINITY, |m, &s| m.max(s));
        let sum: f64 = scores.iter().map(|s| (s - max).exp()).sum();
        for (score, &j) in scores.iter().zip(&keys) {
            (0..shape.width).for_each(|e| out[at + e] += (score - max).exp() / sum * v[j + e]);
        }
        maxima.extend([max; 8]);
        sums.extend([sum; 8]);
    }
    o.write(19, &maxima);
    o.write(20, &sums);
    o.write(22, &out);
}

/// The gradients, from maxima and sums.
pub(crate) fn attention_grad(o: &mut Operands<'_>) {
    let shape = Attention::of(o, 12);
    let [q, k, v, d_o, max, sum, out] = [0, 1, 2, 3, 8, 9, 11].map(|i| o.read(i));
    let (mut d_q, mut d_k, mut d_v) = (vec![0.0; q.len()], vec![0.0; k.len()], vec![0.0; v.len()]);
    for (at, row, keys) in shape.queries() {
        let along = shape.dot(&d_o, at, &out, at);
        for &j in &keys {
            let score = shape.scale * shape.dot(&q, at, &k, j);
            let p = (score - max[row * 8]).exp() / sum[row * 8];
            let ds = p * (shape.dot(&d_o, at, &v, j) - along) * shape.scale;
            for e in 0..shape.width {
                d_q[at + e] += ds * k[j + e];
                d_k[j + e] += ds * q[at + e];
                d_v[j + e] += p * d_o[at + e];
            }
        }
    }
    o.write(24, &d_q);
    o.write(25, &d_k);
    o.write(26, &d_v);
}
