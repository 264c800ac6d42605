//! A type per library, with a method per function.

/// What can be asked of every library.
macro_rules! queries {
    ($owner:ident) => {
        impl $owner {
            /// Whether the library has `function`.
            pub fn has(&self, function: &str) -> bool {
                self.0.has(function)
            }

            /// Checks that all of `functions` are there, before any is needed.
            ///
            /// # Errors
            /// T0741 for the first that is missing.
            pub fn require(&self, functions: &[&'static str]) -> Result<(), Error> {
                self.0.require(functions)
            }

            /// Files that were opened, in the order in which symbols are looked up.
            pub fn files(&self) -> &[std::path::PathBuf] {
                self.0.files()
            }
        }
    };
}
use queries;

pub mod acl {
    //! The ACL runtime: devices, streams, events, memory, kernels and graph capture.

    use crate::error::Error;
    use crate::library::{Kind, Library, Messages, Since, Symbol};
    use crate::search::Search;
    use crate::types::{self, *};
    use std::ffi::{c_char, c_int, c_void};

    /// The ACL runtime.
    #[derive(Debug)]
    pub struct Acl(Library);

    impl Acl {
        /// Opens `libacl_rt.so` or, in older toolkits, `libascendcl.so`.
        ///
        /// # Errors
        /// T0740 if neither is found or loads.
        pub fn load(search: &Search) -> Result<Self, Error> {
            Library::open(Kind::Acl, search, SYMBOLS, None).map(Self)
        }

        pub(super) fn messages(&self) -> Option<Messages> {
            self.0.messages()
        }
    }

    include!(concat!(env!("OUT_DIR"), "/acl_rt.rs"));
    super::queries! { Acl }
}

pub mod nnopbase {
    //! Tensors, scalars, arrays and executors of operators.

    use super::acl::Acl;
    use crate::error::Error;
    use crate::library::{Kind, Library, Since, Symbol};
    use crate::search::Search;
    use crate::types::{self, *};
    use std::ffi::{c_char, c_void};

    /// Descriptors and executors of operators.
    #[derive(Debug)]
    pub struct Nnopbase(Library);

    impl Nnopbase {
        /// Opens `libnnopbase.so`. Its errors carry the messages of `acl`.
        ///
        /// # Errors
        /// T0740 if it is not found or does not load.
        pub fn load(search: &Search, acl: &Acl) -> Result<Self, Error> {
            Library::open(Kind::Nnopbase, search, SYMBOLS, acl.messages()).map(Self)
        }
    }

    include!(concat!(env!("OUT_DIR"), "/nnopbase.rs"));
    super::queries! { Nnopbase }
}

pub mod aclnn {
    //! The operators: `aclnnX` launches what `aclnnXGetWorkspaceSize` has planned.

    use super::acl::Acl;
    use crate::error::Error;
    use crate::library::{Kind, Library, Since, Symbol};
    use crate::operator::Operator;
    use crate::search::Search;
    use crate::types::{self, *};
    use std::ffi::{c_char, c_int, c_void};

    /// The operators.
    #[derive(Debug)]
    pub struct Aclnn(Library);

    impl Aclnn {
        /// Opens every library of operators: the user's own, then `libopapi_*.so`, `libopapi.so`, `libaclnn_*.so`. The first
        /// that has an operator is used. Its errors carry the messages of `acl`.
        ///
        /// # Errors
        /// T0740 if none is found or loads.
        pub fn load(search: &Search, acl: &Acl) -> Result<Self, Error> {
            Library::open(Kind::Aclnn, search, SYMBOLS, acl.messages()).map(Self)
        }

        /// The operator called `name`, such as `aclnnMm`: to be called with values whose types are known only at run time.
        ///
        /// # Errors
        /// T0751 if the table has none of that name, T0741 if this CANN lacks it.
        pub fn operator(&self, name: &str) -> Result<Operator<'_>, Error> {
            Operator::find(&self.0, name)
        }
    }

    include!(concat!(env!("OUT_DIR"), "/aclnn.rs"));
    super::queries! { Aclnn }
}

pub mod hccl {
    //! Collectives.

    use super::acl::Acl;
    use crate::error::Error;
    use crate::library::{Kind, Library, Since, Symbol};
    use crate::search::Search;
    use crate::types::{self, *};
    use std::ffi::{c_char, c_void};

    /// Collectives.
    #[derive(Debug)]
    pub struct Hccl(Library);

    impl Hccl {
        /// Opens `libhccl.so` and `libhcomm.so`, into which newer toolkits have moved the management of communicators. Its
        /// errors carry the messages of `acl`.
        ///
        /// # Errors
        /// T0740 if neither is found or loads.
        pub fn load(search: &Search, acl: &Acl) -> Result<Self, Error> {
            Library::open(Kind::Hccl, search, SYMBOLS, acl.messages()).map(Self)
        }
    }

    include!(concat!(env!("OUT_DIR"), "/hccl.rs"));
    super::queries! { Hccl }
}
