//! Rotary position embedding and its gradient.

use super::args::Args;
use super::check::{FLOATS, ensure};
use super::compute::{Rows, View};
use super::launch::Tensor;
use super::plan::Plan;
use super::{Operator, Table};
use crate::fault::Fault;
use crate::soc::Family;

pub(super) const OPERATORS: Table =
    &[("aclnnRotaryPositionEmbedding", forward as Operator), ("aclnnRotaryPositionEmbeddingGrad", backward)];

/// Which elements of a row are rotated into each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// The halves.
    Half,
    /// Neighbours.
    Interleave,
    /// The halves of each half.
    Quarter,
    /// Neighbours, and the results as halves.
    InterleaveHalf,
}

impl Mode {
    fn of(code: i64) -> Result<Self, Fault> {
        let modes = [Self::Half, Self::Interleave, Self::Quarter, Self::InterleaveHalf];
        let mode = usize::try_from(code).ok().and_then(|code| modes.get(code).copied());
        mode.ok_or_else(|| super::check::invalid(format!("mode is {code}; allowed: 0 to 3")))
    }

    /// The input element that stays at place `i` of a row of `width`.
    fn straight(self, i: usize, width: usize) -> usize {
        match self {
            Self::InterleaveHalf if i < width / 2 => 2 * i,
            Self::InterleaveHalf => 2 * (i - width / 2) + 1,
            _ => i,
        }
    }

    /// The input element that is rotated to place `i`, and its sign.
    fn rotated(self, i: usize, width: usize) -> (usize, f32) {
        let half = width / 2;
        match self {
            Self::Half if i < half => (i + half, -1.0),
            Self::Half => (i - half, 1.0),
            Self::Interleave if i.is_multiple_of(2) => (i + 1, -1.0),
            Self::Interleave => (i - 1, 1.0),
            Self::Quarter => {
                let (base, quarter) = (i / half * half, half / 2);
                if i % half < quarter { (base + i % half + quarter, -1.0) } else { (i - quarter, 1.0) }
            }
            Self::InterleaveHalf if i < half => (2 * i + 1, -1.0),
            Self::InterleaveHalf => (2 * (i - half), 1.0),
        }
    }
}

/// Shapes and limits of `x` and its angles.
fn check(args: &Args, x: &Tensor, cos: &Tensor, sin: &Tensor, mode: Mode) -> Result<(), Fault> {
    x.is_of(FLOATS)?;
    for tensor in [x, cos, sin] {
        tensor.has_rank(4..=4)?;
        tensor.is_typed_as(x)?;
    }
    sin.is_shaped_as(cos)?;
    let (x_dims, cos_dims) = (x.dims(), cos.dims());
    let width = x_dims[3];
    let fits = cos_dims[3] == width && (0..3).all(|i| cos_dims[i] == x_dims[i] || cos_dims[i] == 1);
    ensure(fits, || format!("cos has shape {cos_dims:?}, which does not broadcast to x's {x_dims:?}"))?;
    let step = if mode == Mode::Quarter { 4 } else { 2 };
    ensure(width.is_multiple_of(step), || format!("x has rows of {width}, no multiple of {step}"))?;
    if args.family == Family::A5 {
        return ensure(width <= 1024, || format!("x has rows of {width}; allowed: 1024"));
    }
    ensure(width < 896, || format!("x has rows of {width}; allowed: less than 896"))?;
    let repeated = (0..3).filter(|&i| cos_dims[i] == 1).map(|i| x_dims[i]);
    if mode == Mode::Interleave {
        let num_repeated = (0..3).filter(|&i| cos_dims[i] == 1).count();
        ensure(num_repeated >= 2, || {
            format!("cos has shape {cos_dims:?}; in mode 1 it varies along one of the first three dimensions")
        })?;
        let product: usize = repeated.product();
        return ensure(product < 1000, || {
            format!(
                "x repeats each angle {product} times over batch and heads; allowed in mode 1: less than 1000"
            )
        });
    }
    let too_many = repeated.filter(|&d| d >= 1000).max();
    ensure(too_many.is_none(), || {
        format!("x has shape {x_dims:?}; batch and heads must each be less than 1000")
    })
}

fn forward(args: &mut Args) -> Result<Plan, Fault> {
    let (x, cos, sin) = (args.input("x")?, args.input("cos")?, args.input("sin")?);
    let mode = Mode::of(args.i64())?;
    let out = args.output("out")?;
    check(args, &x, &cos, &sin, mode)?;
    out.is_typed_as(&x)?;
    out.is_shaped_as(&x)?;
    out.is_contiguous()?;
    args.plan(0, move |launch| {
        let angles = [&launch[&cos], &launch[&sin]];
        rows_with(&launch[&x], angles, &launch[&out], |x, cos, sin, out| {
            let width = x.len();
            for i in 0..width {
                let (from, sign) = mode.rotated(i, width);
                out[i] = x[mode.straight(i, width)] * cos[i] + sign * x[from] * sin[i];
            }
        });
    })
}

/// Calls `body` with every row of `x`, its angles and the row of results to fill.
fn rows_with(x: &View, angles: [&View; 2], out: &View, body: impl Fn(&[f32], &[f32], &[f32], &mut [f32])) {
    let [cos, sin] = angles.map(|view| Rows::new(&view.broadcast(&x.dims), 3));
    let (x, out) = (Rows::new(x, 3), Rows::new(out, 3));
    let mut buffers = [(); 4].map(|()| vec![0.0f32; x.width()]);
    let [x_row, cos_row, sin_row, out_row] = &mut buffers;
    for index in 0..x.len() {
        x.load(index, x_row);
        cos.load(index, cos_row);
        sin.load(index, sin_row);
        out_row.fill(0.0);
        body(x_row, cos_row, sin_row, out_row);
        out.store(index, out_row);
    }
}

fn backward(args: &mut Args) -> Result<Plan, Fault> {
    let (dy, cos, sin) = (args.input("dy")?, args.input("cos")?, args.input("sin")?);
    let x = args.optional_input("xOptional")?;
    let mode = Mode::of(args.i64())?;
    let dx = args.output("dxOut")?;
    let (dcos, dsin) = (args.optional_output("dcosOut")?, args.optional_output("dsinOut")?);
    check(args, &dy, &cos, &sin, mode)?;
    dx.is_typed_as(&dy)?;
    dx.is_shaped_as(&dy)?;
    dx.is_contiguous()?;
    let angles = [&dcos, &dsin].map(|t| t.as_ref().filter(|t| t.view.num_elements() > 0));
    if let Some(x) = &x {
        x.is_typed_as(&dy)?;
        x.is_shaped_as(&dy)?;
        for tensor in angles.into_iter().flatten() {
            tensor.is_typed_as(&dy)?;
            tensor.is_shaped_as(&cos)?;
            tensor.is_contiguous()?;
        }
        let repeated: usize = (0..3).filter(|&i| cos.dims()[i] == 1).map(|i| dy.dims()[i]).product();
        ensure(args.family == Family::A5 || repeated <= 1024, || {
            format!("xOptional: gradients of angles repeated {repeated} times; allowed: 1024")
        })?;
    } else {
        ensure(angles.iter().all(Option::is_none), || {
            "xOptional is null, and dcosOut or dsinOut is wanted".to_owned()
        })?;
    }
    args.plan(0, move |launch| {
        let pair = [&launch[&cos], &launch[&sin]];
        rows_with(&launch[&dy], pair, &launch[&dx], |dy, cos, sin, dx| {
            let width = dy.len();
            for i in 0..width {
                let (from, sign) = mode.rotated(i, width);
                dx[mode.straight(i, width)] += dy[i] * cos[i];
                dx[from] += sign * dy[i] * sin[i];
            }
        });
        let Some(x) = launch.view(&x) else { return };
        let widths = [&dcos, &dsin].map(|tensor| launch.view(tensor).filter(|view| view.num_elements() > 0));
        if let Some(dcos) = widths[0] {
            angle_gradient(&launch[&dy], x, dcos, |i, width| (mode.straight(i, width), 1.0));
        }
        if let Some(dsin) = widths[1] {
            angle_gradient(&launch[&dy], x, dsin, |i, width| mode.rotated(i, width));
        }
    })
}

/// The gradient of an angle: products over everything it is repeated for.
fn angle_gradient(dy: &View, x: &View, out: &View, source: impl Fn(usize, usize) -> (usize, f32)) {
    let width = x.dims[3];
    let mut sums = vec![0.0f32; out.num_elements()];
    let places = View::contiguous(out.dtype, &out.dims, 0).broadcast(&x.dims);
    let starts = places.at(3, 0).offsets().collect::<Vec<_>>();
    let (dy, x) = (Rows::new(dy, 3), Rows::new(x, 3));
    let (mut dy_row, mut x_row) = (vec![0.0f32; width], vec![0.0f32; width]);
    for (index, start) in starts.into_iter().enumerate() {
        dy.load(index, &mut dy_row);
        x.load(index, &mut x_row);
        for i in 0..width {
            let (from, sign) = source(i, width);
            sums[start + i] += sign * dy_row[i] * x_row[from];
        }
    }
    out.assign(&sums);
}
