//! The one table of CANN's C interface, and what is made from it: Rust declarations and a C++ file that checks the table
//! against the vendor's headers.
//!
//! `data/` holds the table, one text file per library, one entry a line, in the vendor's own notation:
//! ```text
//! library acl_rt
//! handle aclrtStream;                                    an alias of void*
//! opaque aclTensor;                                      a struct whose members are hidden
//! alias aclError = int;
//! callback void aclrtHostFunc(void* args);               a pointer to a function
//! enum aclrtRunMode { ACL_DEVICE = 0, ACL_HOST = 1 };
//! struct aclrtPlaceHolderInfo { uint32_t addrOffset; uint32_t dataOffset; };
//! const uint32_t ACL_EVENT_SYNC = 0x1;
//! code 100000 ACL_ERROR_INVALID_PARAM;                   a status
//! fn [8.5] aclError aclrtFree(void* devPtr);             the tag is a `Since`
//! op [ops-nn H] aclnnMm(const aclTensor* self, ...);     two functions; the tag says where the signature was read
//! ```
//! The crate does no IO of its own beyond `headers`, which runs a C++ compiler; the running program never links it.

pub mod c_type;
pub mod conformance;
pub mod dispatch;
pub mod headers;
pub mod layout;
pub mod model;
pub mod mutants;
pub mod parse;
pub mod rust;

use model::Table;

/// The files of the table: name and text. Types are declared before they are used, so the order counts.
pub const FILES: [(&str, &str); 4] = [
    ("acl.txt", include_str!("../data/acl.txt")),
    ("nnopbase.txt", include_str!("../data/nnopbase.txt")),
    ("hccl.txt", include_str!("../data/hccl.txt")),
    ("aclnn.txt", include_str!("../data/aclnn.txt")),
];

/// The whole table.
///
/// # Errors
/// The file, line and fault of the first entry that does not parse.
pub fn table() -> Result<Table, String> {
    let mut table = Table::default();
    for (name, text) in FILES {
        parse::read(&mut table, name, text)?;
    }
    Ok(table)
}
