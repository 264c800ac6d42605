//! Times the passes on 126 blocks, the depth of Llama 3 405B.

use titan_ir::{DType, Mesh};
use titan_passes::manager::{ManagerOptions, run};
use titan_passes::pass::PassCx;
use titan_passes::pipeline::{PipelineOptions, pipeline};
use titan_tests::decoder::Decoder;

fn main() {
    let decoder = Decoder {
        num_layers: 126,
        dim: 16384,
        num_heads: 128,
        num_kv_heads: 8,
        hidden: 53248,
        vocab: 128_256,
        batch: 512,
        seq: 8192,
        compute: DType::Bf16,
        mesh: Mesh::new(&[("dp_shard", 512)]),
    };
    let mut module = decoder.module().expect("sizes fit");
    let steps = pipeline(PipelineOptions::default());
    match run(&mut module, &mut PassCx::default(), &steps, &ManagerOptions::default()) {
        Ok(report) => print!("{}", report.table()),
        Err(diags) => eprintln!("{diags}"),
    }
}
