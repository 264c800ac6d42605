//! The artifact format: what is written is read, and no damage goes unseen.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use titan_ir::Mesh;
use titan_ir::artifact::{
    Artifact, DataInfo, FORMAT_VERSION, KERNEL_IMAGE, KERNEL_TABLE, KernelTable, MANIFEST, Manifest,
    ModelInfo, PlanInfo, RunInfo, TargetInfo, encode, plan_section,
};
use titan_ir::plan::{MemoryReport, Plan};

fn manifest() -> Manifest {
    Manifest {
        titan_version: "0".into(),
        target: TargetInfo { name: "cpu-portable".into(), features: vec![] },
        model: ModelInfo {
            name: "m".into(),
            flavor: "f".into(),
            num_params: 1,
            flops_per_token: 6,
            vocab_size: 2,
            hf_names: vec![],
        },
        run: RunInfo {
            description: "d".into(),
            config_file: Some("m.toml".into()),
            dump_folder: "./outputs".into(),
            steps: 1,
            max_steps: 1,
            log_freq: 1,
            color: false,
            seq_len: 4,
            local_batch_size: 1,
            seed: 0,
            memory_bytes: None,
            compute_dtype: "f32".into(),
        },
        data: DataInfo { dataset: "c4_test".into(), dataset_path: None, tokenizer_path: "t".into() },
        plans: vec![PlanInfo {
            world_size: 2,
            mesh: Mesh::new(&[("dp_shard", 2)]),
            accumulation: 1,
            global_batch_size: 2,
            memory: MemoryReport::default(),
        }],
        config: serde_json::json!({"training": {"steps": 1}}),
        fingerprint: BTreeMap::new(),
    }
}

fn file() -> Vec<u8> {
    let plan = Plan { mesh: Mesh::new(&[("dp_shard", 2)]), ..Plan::default() };
    let table = KernelTable { kernels: vec![], entries: vec![0] };
    encode(&[
        (MANIFEST.into(), serde_json::to_vec(&manifest()).unwrap()),
        (plan_section(2), postcard::to_allocvec(&plan).unwrap()),
        (KERNEL_TABLE.into(), postcard::to_allocvec(&table).unwrap()),
        (KERNEL_IMAGE.into(), vec![0xc3; 5000]),
    ])
}

#[test]
fn what_is_written_is_read() {
    let bytes = file();
    let artifact = Artifact::parse(&bytes).unwrap();
    assert_eq!(artifact.manifest, manifest());
    assert_eq!(artifact.plan(2).unwrap().mesh, Mesh::new(&[("dp_shard", 2)]));
    assert_eq!(artifact.kernel_table().unwrap().entries, [0]);
    let image = artifact.image_range().unwrap();
    assert_eq!((image.start % 4096, image.len()), (0, 5000));
    assert_eq!(artifact.section(KERNEL_IMAGE).unwrap(), &bytes[image]);
}

#[test]
fn every_flipped_bit_is_seen() {
    let bytes = file();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        let diag = Artifact::parse(&damaged).err().unwrap_or_else(|| panic!("byte {at} may be changed"));
        assert!(matches!(diag.code, "T0601" | "T0602" | "T0603" | "T0604"), "{diag}");
    }
}

#[test]
fn every_truncation_is_seen() {
    let bytes = file();
    let ends = (0..200).chain((200..bytes.len()).step_by(97));
    for end in ends {
        assert!(Artifact::parse(&bytes[..end]).is_err(), "{end}");
    }
    assert_eq!(Artifact::parse(&[&bytes[..], &[0]].concat()).unwrap_err().code, "T0603");
}

#[test]
fn another_version_and_another_number_of_ranks_are_named() {
    let mut bytes = file();
    let diag = Artifact::parse(&bytes).unwrap().plan(3).unwrap_err();
    assert_eq!(
        (diag.code, diag.help.as_deref().unwrap()),
        ("T0606", "rebuild it: titanc build m.toml --titan.world_size 3",)
    );
    bytes[8] = 77;
    let diag = Artifact::parse(&bytes).unwrap_err();
    assert_eq!(diag.code, "T0602");
    assert!(diag.message.contains("77") && diag.message.contains(&FORMAT_VERSION.to_string()), "{diag}");
}
