//! How handles, hidden structs and enums of C look in Rust.

/// A `void*` of its own type, so that a stream cannot be passed for an event.
macro_rules! handle {
    ($name:ident) => {
        #[doc = concat!("C's `", stringify!($name), "`, a `void*`.")]
        #[repr(transparent)]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $name(pub *mut c_void);

        impl $name {
            /// No object.
            pub const NULL: Self = Self(std::ptr::null_mut());

            /// Whether this is no object.
            pub fn is_null(self) -> bool {
                self.0.is_null()
            }
        }

        // SAFETY: the value is only a name of an object; what may be done with it on which thread, and when, is a
        // condition of the unsafe functions that take it.
        unsafe impl Send for $name {}
        // SAFETY: as above.
        unsafe impl Sync for $name {}
    };
}

/// A struct whose members are hidden; it is only pointed to.
macro_rules! opaque {
    ($name:ident) => {
        #[doc = concat!("C's `", stringify!($name), "`, whose members are hidden.")]
        #[repr(C)]
        #[derive(Debug)]
        pub struct $name {
            hidden: [u8; 0],
            marker: std::marker::PhantomData<(*mut u8, std::marker::PhantomPinned)>,
        }
    };
}

/// An enum as an integer, because a library may return values that are not listed.
macro_rules! enumeration {
    ($name:ident $($value:ident = $number:literal,)*) => {
        #[doc = concat!("C's enum `", stringify!($name), "`.")]
        #[repr(transparent)]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub i32);

        impl $name {
            $(
                #[doc = concat!("`", stringify!($value), "`.")]
                pub const $value: Self = Self($number);
            )*

            /// The first listed name of this value.
            pub fn name(self) -> Option<&'static str> {
                let names: &[(i32, &'static str)] = &[$(($number, stringify!($value)),)*];
                names.iter().find(|(number, _)| *number == self.0).map(|(_, name)| *name)
            }
        }

        const _: () = assert!(size_of::<$name>() == 4);
    };
}

pub(crate) use {enumeration, handle, opaque};
