//! How elements are read into lanes, and lanes rounded to elements.

use half::{bf16, f16};

/// A type of elements in memory.
pub(crate) trait Element: Copy + 'static {
    fn to_f32(self) -> f32;
    fn to_f64(self) -> f64;
    fn to_i64(self) -> i64;
    fn from_f32(x: f32) -> Self;
    fn from_f64(x: f64) -> Self;
    fn from_i64(x: i64) -> Self;
}

/// One byte that is 0 or 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Truth(u8);

macro_rules! plain {
    ($($type:ty),*) => {$(
        impl Element for $type {
            fn to_f32(self) -> f32 {
                self as f32
            }
            fn to_f64(self) -> f64 {
                self as f64
            }
            fn to_i64(self) -> i64 {
                self as i64
            }
            fn from_f32(x: f32) -> Self {
                x as $type
            }
            fn from_f64(x: f64) -> Self {
                x as $type
            }
            fn from_i64(x: i64) -> Self {
                x as $type
            }
        }
    )*};
}

plain!(f32, f64, i8, i16, i32, i64, u8, u16, u32, u64);

macro_rules! half_width {
    ($($type:ty),*) => {$(
        impl Element for $type {
            fn to_f32(self) -> f32 {
                <$type>::to_f32(self)
            }
            fn to_f64(self) -> f64 {
                <$type>::to_f64(self)
            }
            fn to_i64(self) -> i64 {
                <$type>::to_f32(self) as i64
            }
            fn from_f32(x: f32) -> Self {
                <$type>::from_f32(x)
            }
            fn from_f64(x: f64) -> Self {
                <$type>::from_f64(x)
            }
            fn from_i64(x: i64) -> Self {
                <$type>::from_f64(x as f64)
            }
        }
    )*};
}

half_width!(f16, bf16);

impl Element for Truth {
    fn to_f32(self) -> f32 {
        f32::from(u8::from(self.0 != 0))
    }
    fn to_f64(self) -> f64 {
        f64::from(u8::from(self.0 != 0))
    }
    fn to_i64(self) -> i64 {
        i64::from(self.0 != 0)
    }
    fn from_f32(x: f32) -> Self {
        Self(u8::from(x != 0.0))
    }
    fn from_f64(x: f64) -> Self {
        Self(u8::from(x != 0.0))
    }
    fn from_i64(x: i64) -> Self {
        Self(u8::from(x != 0))
    }
}

/// A type results are computed in: f32 for floats of 32 and 16 bits, f64 for DOUBLE, i64 for integers.
pub(crate) trait Lane: Copy + Default + 'static {
    fn of<E: Element>(element: E) -> Self;
    fn round<E: Element>(self) -> E;
    fn of_f64(x: f64) -> Self;
}

impl Lane for f32 {
    fn of<E: Element>(element: E) -> Self {
        element.to_f32()
    }
    fn round<E: Element>(self) -> E {
        E::from_f32(self)
    }
    fn of_f64(x: f64) -> Self {
        x as f32
    }
}

impl Lane for f64 {
    fn of<E: Element>(element: E) -> Self {
        element.to_f64()
    }
    fn round<E: Element>(self) -> E {
        E::from_f64(self)
    }
    fn of_f64(x: f64) -> Self {
        x
    }
}

impl Lane for i64 {
    fn of<E: Element>(element: E) -> Self {
        element.to_i64()
    }
    fn round<E: Element>(self) -> E {
        E::from_i64(self)
    }
    fn of_f64(x: f64) -> Self {
        x as i64
    }
}

/// Runs an expression with `$E` the element type of `$dtype`.
macro_rules! each_element {
    ($dtype:expr, $E:ident => $body:expr) => {{
        use $crate::operators::compute::DType as D;
        macro_rules! with {
            ($type:ty) => {{
                type $E = $type;
                $body
            }};
        }
        match $dtype {
            D::F32 => with!(f32),
            D::F16 => with!(half::f16),
            D::Bf16 => with!(half::bf16),
            D::F64 => with!(f64),
            D::I8 => with!(i8),
            D::I16 => with!(i16),
            D::I32 => with!(i32),
            D::I64 => with!(i64),
            D::U8 => with!(u8),
            D::U16 => with!(u16),
            D::U32 => with!(u32),
            D::U64 => with!(u64),
            D::Bool => with!($crate::operators::compute::Truth),
        }
    }};
}
pub(crate) use each_element;
