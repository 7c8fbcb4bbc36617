//! Writes the types of the service for reflection: `$OUT_DIR/orders.pb`, a FileDescriptorSet.

use std::error::Error;
use std::{env, fs, path::Path};

use prost::Message;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let types = protox::compile(["orders.proto"], ["proto"])?;
    fs::write(Path::new(&env::var("OUT_DIR")?).join("orders.pb"), types.encode_to_vec())?;
    Ok(())
}
