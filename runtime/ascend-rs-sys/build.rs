//! Writes the declarations of every function, type and constant of the table.

use ascend_rs_table::model::Library;
use ascend_rs_table::{dispatch, rust, table};
use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    let table = table().map_err(io::Error::other)?;
    let folder = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("OUT_DIR is not set"))?;
    let write = |name: &str, text: String| fs::write(Path::new(&folder).join(name), text);
    write("types.rs", rust::types(&table))?;
    write("operators.rs", dispatch::operators(&table))?;
    for (name, library) in Library::ALL {
        write(&format!("{name}.rs"), rust::functions(&table, library))?;
    }
    Ok(())
}
