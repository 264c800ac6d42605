//! Every diagnostic code with its title and the explanation `titanc explain` prints.
//!
//! Ranges: T00xx text form, T01xx types and verifier, T02xx autodiff and passes, T03xx sharding and mesh, T04xx configuration,
//! T05xx target, memory and planning, T06xx artifact, T07xx run time, T08xx data, tokenizer and weights, T09xx command line.
//! A code keeps its meaning for ever: one that is no longer used is removed, never reused.

/// One diagnostic code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    /// `T` and four digits.
    pub code: &'static str,
    /// What is wrong, in a few words.
    pub title: &'static str,
    /// When it is reported, why it is wrong, and what to do.
    pub explanation: &'static str,
}

/// The code named `code`, in any letter case.
pub fn explain(code: &str) -> Option<&'static Code> {
    CODES.iter().find(|c| c.code.eq_ignore_ascii_case(code))
}

/// A row of [`CODES`].
const fn row(code: &'static str, title: &'static str, explanation: &'static str) -> Code {
    Code { code, title, explanation }
}

/// All codes, in ascending order.
pub const CODES: &[Code] = &[
    row(
        "T0001",
        "unreadable text",
        "The file holds a character or a literal that the text form of the IR does not have: a control character, \
         a string that does not end, a number out of range.",
    ),
    row(
        "T0002",
        "syntax error in IR text",
        "Something else was expected at this place. Dump a module with `titanc build --dump-ir` to see the form.",
    ),
    row(
        "T0003",
        "unknown op",
        "The op table has no op of this name. Op names are lower case, such as `rms_norm_grad`.",
    ),
    row(
        "T0004",
        "bad attribute",
        "An attribute is missing, unknown to its op, written twice, or of another kind than the op expects.",
    ),
    row(
        "T0005",
        "unknown name",
        "A value, mesh axis, parameter or element type of this name does not exist at this place. Values are \
         defined before they are used.",
    ),
    row(
        "T0006",
        "defined twice",
        "Every value of a function is defined once, and a layout places a tensor once along each mesh axis.",
    ),
    row(
        "T0007",
        "program file cannot be read",
        "The text file given to `titanc opt` does not exist, is not readable or is not UTF-8.",
    ),
    row(
        "T0008",
        "not one program",
        "`titanc opt` reads the text of one program. An artifact is not text, and `titanc inspect --ir` prints several \
         programs, two for each number of ranks. `titanc build --dump-ir DIR` writes each program to a file of its own.",
    ),
    row(
        "T0101",
        "wrong number of operands",
        "The op takes another number of operands, or a kernel has another number of buffers. The message gives \
         both.",
    ),
    row(
        "T0102",
        "wrong element type",
        "An operand has an element type the op does not take, or operands that must agree do not. Nothing is \
         converted silently: insert a `cast`.",
    ),
    row(
        "T0103",
        "dimensions do not fit",
        "Operands, attributes and results do not fit each other. The message gives both sides.",
    ),
    row(
        "T0104",
        "wrong number of dimensions",
        "An operand has more or fewer dimensions than the op takes, or an attribute names a dimension it does not \
         have.",
    ),
    row(
        "T0105",
        "attribute without meaning",
        "An attribute has the right kind but a value the op cannot compute with, such as a contraction that is \
         not one matrix product.",
    ),
    row(
        "T0106",
        "not divisible",
        "A dimension must be a multiple of another number, such as query heads of key heads. The message gives \
         both.",
    ),
    row(
        "T0130",
        "value not defined once before its use",
        "Functions are straight-line: every value is a parameter or the result of one operation, above all of its \
         uses.",
    ),
    row(
        "T0131",
        "type differs from the op's rule",
        "The written type of a result is not what the op gives for its operands. The message gives both.",
    ),
    row(
        "T0132",
        "layout differs from the op's sharding rule",
        "The operands' placements on the mesh do not fit the op, or the result is not placed as the op leaves it. \
         A `reshard` changes a placement.",
    ),
    row(
        "T0133",
        "op at the wrong stage",
        "The op does not exist at the module's stage: no `reshard` in per-rank programs, and only kernels, \
         collectives, views and copies at the end.",
    ),
    row(
        "T0134",
        "bad function result",
        "A result that updates a parameter has the parameter's type, and every parameter is updated at most once.",
    ),
    row(
        "T0135",
        "bad mesh or placement",
        "Axes of a mesh have different names and at least one rank, and a placement names an axis and a dimension \
         that exist.",
    ),
    row(
        "T0136",
        "name used twice",
        "Functions, and within a function parameters and outputs, have different names. Functions share a state \
         tensor by name: its types must then agree.",
    ),
    row(
        "T0201",
        "op without a gradient",
        "The op lies between a weight and the loss, and its gradient is not defined: min and max, table look-ups by number, and \
         gradients themselves. The message names the module that uses it.",
    ),
    row(
        "T0202",
        "loss is not one number",
        "The output `loss` must be a scalar of type f32: reduce it over all tokens and cast it.",
    ),
    row(
        "T0203",
        "no loss",
        "Differentiation starts at the output `loss` of a function, and the optimizer reports it. No function has it.",
    ),
    row(
        "T0204",
        "weight without influence",
        "The loss does not depend on a weight. Its gradient is zero, and only weight decay moves it. Usually a module was built and \
         not called.",
    ),
    row(
        "T0205",
        "no gradients",
        "The optimizer found no outputs `grad:<weight>`. The pass autodiff makes them and has to run before.",
    ),
    row(
        "T0206",
        "gradient is not the derivative of the loss",
        "The checker of gradients moved a weight and saw another change of the loss than the gradient says. This is a fault of an op's \
         gradient rule: please report it with the model.",
    ),
    row(
        "T0207",
        "gradients exist already",
        "The pass autodiff was asked to differentiate a program that has outputs `grad:<weight>`. It runs once.",
    ),
    row(
        "T0211",
        "unknown pass",
        "A pass or checker named on the command line does not exist, or is not a step of the pipeline. The note lists the \
         names that are.",
    ),
    row(
        "T0212",
        "IR dump cannot be written",
        "The folder of --dump-ir cannot be created, or a file in it cannot be written. The message gives the reason.",
    ),
    row(
        "T0213",
        "bad pass option",
        "An option after a pass name, as in `remat:mode=full`, is unknown to that pass, or its value is not of the option's type.",
    ),
    row(
        "T0214",
        "module at another stage",
        "A pass takes modules of the stages it is made for: graph (as traced), sharded (after insert-reshard), local (after \
         localize) or kernels (after fuse). Run the passes before it first, or read the dump of a later pass.",
    ),
    row(
        "T0215",
        "pass cannot be left out",
        "Without this step the program would be another one, could not be completed, or would not be proved. Only steps that \
         save time or memory can be left out; the note lists them.",
    ),
    row(
        "T0216",
        "values without layouts",
        "The pass insert-reshard moves values from the layout they have to the one their readers need. The pass propagate \
         decides on layouts and has to run just before.",
    ),
    row(
        "T0301",
        "state stored as partial sums",
        "A parameter has a partial layout: every rank would store an addend of it. State is stored sharded or replicated; only \
         values within a step are partial.",
    ),
    row(
        "T0302",
        "batch cannot be divided",
        "Every data-parallel rank gets the same number of sequences, so the global batch (one microbatch over all ranks) must be \
         a multiple of data_parallel_replicate_degree x data_parallel_shard_degree. Weights need not divide: their last \
         shards are padded.",
    ),
    row(
        "T0303",
        "collective along an inner dimension",
        "Changing a layout here needs a gather, scatter or slice of a dimension other than the first. Collectives concatenate and \
         cut whole buffers, which is dimension 0. Shard dimension 0, or give both sides the same layout.",
    ),
    row(
        "T0304",
        "cuts of one dimension out of order",
        "Several mesh axes cut the same dimension, outermost axis first. An outer cut cannot be made or undone while an inner one \
         stands, because the chunks would come out in another order. Reshard along the inner axis first.",
    ),
    row(
        "T0305",
        "uneven cut of an uneven cut",
        "A dimension is cut along two mesh axes and the outer cut leaves chunks of different sizes. Only a dimension cut along one \
         axis may be uneven.",
    ),
    row(
        "T0306",
        "padding would reach a number",
        "Unevenly cut tensors end in rows of zeros on the last ranks. An op here may turn those zeros into something else, and a \
         later op sums over them or stores them. Make the dimension a multiple of the ranks, or replicate the tensor first.",
    ),
    row(
        "T0400",
        "configuration file cannot be read",
        "The file named on the command line or by --job.config_file does not exist, is not readable, or is not UTF-8 text. \
         Relative paths start at the current folder. Without any file the defaults are used.",
    ),
    row(
        "T0401",
        "TOML syntax error",
        "The file is not TOML. Common causes: a string without quotes, Python's True and False instead of true and false, a \
         key or section written twice. All syntax errors of a file are reported together; keys are judged only once the \
         file parses.",
    ),
    row(
        "T0402",
        "unknown key",
        "The section has no key of this name in torchtitan v0.2.2. It is an error and not a warning, because a misspelt key \
         would otherwise silently train with the default. `titanc keys` lists every key. Keys that a Python schema extension \
         (job.custom_config_module) adds are unknown to titanc.",
    ),
    row(
        "T0403",
        "unknown section",
        "torchtitan v0.2.2 has no section of this name. Nested sections are written with dots: [training.dataloader], \
         [quantize.linear.float8].",
    ),
    row(
        "T0404",
        "wrong type",
        "The value has another type than its key. titanc checks what torchtitan stores unchecked and trips over later. An \
         integer is accepted where a float is expected; nothing else is converted: quoted numbers, and numbers for strings \
         (selective_ac_option = '2' is a string) are errors.",
    ),
    row(
        "T0405",
        "not one of the allowed values",
        "The key takes one of a fixed list of words, which the message gives. Words are compared exactly, upper and lower \
         case included.",
    ),
    row(
        "T0406",
        "value out of range",
        "The value has the right type but no meaning there, such as a batch size of zero or a beta of 1.0. The message \
         gives the accepted range.",
    ),
    row(
        "T0407",
        "key has moved",
        "The key is from a torchtitan before v0.2.0. Its present name is given; the meaning is the same unless the message \
         says otherwise.",
    ),
    row(
        "T0408",
        "deprecated key or value",
        "The key or value still works and is read as the one the message names, as torchtitan does. A deprecated key wins \
         over the present one in the same file. Rename it to silence the warning.",
    ),
    row(
        "T0409",
        "feature not supported yet",
        "The setting asks for something that changes what is trained or how the state is kept (tensor, pipeline, context or \
         expert parallelism, float8, checkpoints, ...) and that titanc does not have yet. It is refused rather than ignored, \
         so that a run never differs silently from what its file says. The key is accepted at its rest value.",
    ),
    row(
        "T0410",
        "feature ignored",
        "The setting asks for something that only observes training (profiling, TensorBoard, Weights & Biases, memory \
         snapshots, ...) and that titanc does not have yet. The training itself is the same without it.",
    ),
    row(
        "T0411",
        "learning-rate schedule adjusted",
        "Warm-up and decay do not fit into the number of steps. As in torchtitan, warm-up is cut to the number of steps and \
         decay to what warm-up leaves. With lr_scheduler.total_steps below training.steps the rate stays at its floor for the \
         remaining steps.",
    ),
    row(
        "T0412",
        "tokenizer.model is not read",
        "model.hf_assets_path (or the deprecated model.tokenizer_path) must name a folder that holds Hugging Face tokenizer \
         files such as tokenizer.json. The old tiktoken file tokenizer.model is not read, by torchtitan v0.2 neither.",
    ),
    row(
        "T0413",
        "dataset without a local path",
        "torchtitan downloads c4 and c4_validation; titan-run opens no network connection and stops without local data. Set \
         training.dataset_path, or give `titan-run --dataset-path` when training starts. The build is the same either way.",
    ),
    row(
        "T0414",
        "key of another device",
        "titan.ascend_kernels and titan.ascend_workspace_mib say how a program for an Ascend device is made. The target is a CPU, so \
         they make no difference.",
    ),
    row(
        "T0420",
        "parallel degrees do not match the number of ranks",
        "data_parallel_replicate_degree x data_parallel_shard_degree x context_parallel_degree x tensor_parallel_degree x \
         pipeline_parallel_degree must be the number of ranks. With data_parallel_shard_degree = -1 the shard degree is the \
         number of ranks divided by the other degrees, which must divide it.",
    ),
    row(
        "T0421",
        "batch sizes do not match",
        "training.global_batch_size must be a positive multiple of training.local_batch_size times the data-parallel degree \
         (replicate x shard): the quotient is the number of gradient-accumulation steps. A negative value means one \
         accumulation step.",
    ),
    row(
        "T0422",
        "sequence length not divisible",
        "training.seq_len must be a multiple of tensor_parallel_degree x 2 x context_parallel_degree. The factor 2 is there \
         even without context parallelism, as in torchtitan.",
    ),
    row(
        "T0423",
        "no usable number of ranks",
        "titan.ranks lists the numbers of ranks an artifact holds plans for when data_parallel_shard_degree is -1 and \
         titan.world_size is not set. It must not be empty nor name a number twice, and at least one of its numbers must \
         suit the degrees and batch sizes.",
    ),
    row(
        "T0424",
        "run out of bounds",
        "Tokens of a microbatch and steps are counted exactly up to 2^24 = 16,777,216, and a step has at most 65,536 microbatches. Real \
         runs are far below.",
    ),
    row(
        "T0430",
        "unknown model",
        "model.name is not in the registry of this compiler, and torchtitan has no model of that name either. A crate of your own \
         can add models: see examples/user_model.",
    ),
    row(
        "T0431",
        "model not here yet",
        "model.name is a model of torchtitan v0.2.2 or of its experiments that this compiler does not have. The experiments \
         simple_fsdp, compiler_toolkit and autoparallel train the same llama3 by other means; `llama3` is its name here.",
    ),
    row(
        "T0432",
        "unknown flavor",
        "model.flavor is none of the sizes of the model. Any argument of a flavor can be changed in [titan.model_args].",
    ),
    row(
        "T0433",
        "document masks not supported yet",
        "Flavors that end in _flex, _flex_attn, _varlen or _varlen_attn keep attention inside a document, which ends at its \
         end-of-sequence token. titanc has plain causal attention only, and refuses rather than train something else.",
    ),
    row(
        "T0440",
        "arguments of the model do not fit",
        "The sizes of a model come from its flavor and from [titan.model_args]. Together they must make a model: \
         heads divide the width, key heads divide query heads, rotary heads are even.",
    ),
    row(
        "T0441",
        "unknown model argument",
        "[titan.model_args] names an argument the model does not have. The names are those of the model's argument struct; the \
         message lists them.",
    ),
    row(
        "T0442",
        "bad model argument",
        "An argument in [titan.model_args] has another type than the model's argument, or is out of the range of that type.",
    ),
    row(
        "T0501",
        "unknown target",
        "titan.target is not a device this compiler knows, or it is `cpu` on a machine whose processor runs none of the CPU \
         targets. Names are read in any case; no Ascend device or software is needed to build for one.",
    ),
    row(
        "T0502",
        "state cannot be placed",
        "The functions of a program disagree about the type of a state they share, or two states take each other's values, \
         which would need a copy of both. Programs that titanc traces never do.",
    ),
    row(
        "T0503",
        "plan overwrites what it still needs",
        "The independent check of the memory plan found two buffers in use at the same time at one address, or two streams that \
         touch one buffer without waiting for each other. It is a fault of the compiler: nothing is written. Please report it \
         with the configuration.",
    ),
    row(
        "T0504",
        "collectives that do not meet",
        "The ranks of a group would not issue the same collectives in the same order, so the step would hang. It is a fault of \
         the compiler: nothing is written. Please report it with the configuration.",
    ),
    row(
        "T0510",
        "plan does not fit",
        "titan.memory_gib says how much memory a rank has, and every plan needs more. Nothing is written and the exit code is 3. The \
         help names the cheapest change that was planned and found to fit: recomputing activations, smaller microbatches made up \
         for by accumulation, or more ranks. Without titan.memory_gib the plan is compared with the memory of the device \
         and only reported: 64 GiB for a CPU; for an Ascend device its memory less 3.1 GiB that driver and runtime are taken to keep.",
    ),
    row(
        "T0530",
        "kernel that no operators compute",
        "A generated kernel addresses an operand in a way for which the vendor's operators have no equivalent, and the device compiler's \
         subset does not hold it either. Programs that titanc makes from models never do. Please report it with the configuration.",
    ),
    row(
        "T0540",
        "device compiler cannot be run",
        "TITAN_BISHENGIR or PATH names a `bishengir-compile` that is missing, not executable, or does not answer `--version`. Correct \
         TITAN_BISHENGIR (the program, or the folder it is in), or unset it: without a device compiler the source of the kernels \
         stays in the artifact and is compiled on the device machine.",
    ),
    row(
        "T0541",
        "device compiler refuses a kernel",
        "The device compiler ended with an error; the notes are its own. Titan generates only what version 1.2.0 accepts: with another \
         version, `--ascend-kernels=aclnn` uses the vendor's operators instead of generated kernels.",
    ),
    row(
        "T0542",
        "device compiler crashed",
        "The device compiler ended by a signal or an internal check. `--ascend-kernels=aclnn` needs no device compiler.",
    ),
    row(
        "T0543",
        "device compiler does not end",
        "Compiling a kernel takes about a second; the device compiler was stopped after two minutes. Is the machine out of memory, or \
         the program a wrapper that waits for input?",
    ),
    row(
        "T0544",
        "device compiler wrote no object",
        "The device compiler reported success, but its output file is missing or empty.",
    ),
    row(
        "T0545",
        "back end of the device compiler is missing",
        "`bishengir-compile` alone only translates kernels; `hivmc`, which makes device code, comes with the CANN toolkit. Source the \
         toolkit's set_env.sh, or unset TITAN_BISHENGIR to compile the kernels on the device machine.",
    ),
    row(
        "T0546",
        "no room for the device compiler's files",
        "The folder for temporary files (TMPDIR, else /tmp) cannot be written.",
    ),
    row(
        "T0550",
        "stream or event that does not exist",
        "A program for an Ascend device names a stream or event beyond those it declares. A fault of the compiler: \
         nothing is written. Please report it with the configuration.",
    ),
    row(
        "T0551",
        "work outside of the capture",
        "A part of the step is captured as one graph that begins on stream 0. Work of another stream joins it only after \
         that stream has waited for an event recorded in the part; before, it would run at once and be missing from every \
         replay. A fault of the compiler: please report it with the configuration.",
    ),
    row(
        "T0552",
        "wait for an event outside of the capture",
        "A captured stream can wait only for events recorded in the same capture before. A fault of the compiler: please \
         report it with the configuration.",
    ),
    row(
        "T0553",
        "stream that does not join",
        "The last call of every side stream of a part must be a record that stream 0 waits for, directly or through other \
         streams; else the device's runtime discards the capture. A fault of the compiler: please report it with the \
         configuration.",
    ),
    row(
        "T0554",
        "too many streams",
        "A device has 1984 streams. Every graph takes one per stream of the program, one more for each 2048 tasks of a \
         queue, and some for its collectives. The number is an estimate from above.",
    ),
    row(
        "T0555",
        "too many events",
        "A device has 65536 events, and every record of every graph may take one.",
    ),
    row(
        "T0556",
        "too many graphs with collectives",
        "Where AI CPUs unfold collectives, a device runs at most 6 graphs that have some. Every guard and every segment \
         of the step ends a graph.",
    ),
    row(
        "T0557",
        "operator that cannot be captured",
        "The operator reads data back to the host, copies data from it, or compiles on it, which a capture refuses. The \
         help names what does the same inside a capture.",
    ),
    row(
        "T0558",
        "collective that cannot be captured",
        "Which collectives a capture may hold depends on the device and on what unfolds them: HCCL_OP_EXPANSION_MODE. \
         With HCCL's own choice all that titanc uses can be captured.",
    ),
    row(
        "T0559",
        "value that a replay cannot change",
        "Arguments that the host passes by value are part of the captured graph: a learning rate or seed given so would \
         be the same in every step. Operators that take it as a tensor read it anew.",
    ),
    row(
        "T0560",
        "unordered accesses on the device",
        "The independent check of an Ascend program found two calls of different streams that touch the same bytes, one \
         of them writing, without an event between them. It is a fault of the compiler: nothing is written. Please report \
         it with the configuration.",
    ),
    row(
        "T0561",
        "address outside of its region",
        "Every operand of a call lies in one region of the arena: state, step, a table or scratch, at the alignment the \
         library asks for. The check found one that does not, or regions that overlap. A fault of the compiler: please \
         report it with the configuration.",
    ),
    row(
        "T0562",
        "constant table is written",
        "Tables are filled once, when the program is loaded. A fault of the compiler: please report it with the \
         configuration.",
    ),
    row(
        "T0563",
        "workspace of another stream",
        "Operators of a stream use that stream's workspace and nothing else may: the next operator overwrites it. A fault \
         of the compiler: please report it with the configuration.",
    ),
    row(
        "T0564",
        "read of memory nothing has written",
        "A call of an Ascend program reads bytes before any call writes them. A fault of the compiler: please report it \
         with the configuration.",
    ),
    row(
        "T0565",
        "access the plan does not make",
        "The calls that an instruction of the plan became may read what it reads, write what it writes, and use scratch \
         among themselves. The check found one that does more. A fault of the compiler: please report it with the \
         configuration.",
    ),
    row(
        "T0566",
        "program that leaves out a part of the plan",
        "Something the plan writes, guards or communicates is missing in the Ascend program, or in another order. A fault \
         of the compiler: please report it with the configuration.",
    ),
    row(
        "T0600",
        "artifact cannot be read",
        "The file is missing, unreadable, or on a file system that forbids executable mappings.",
    ),
    row(
        "T0601",
        "not an artifact",
        "titan-run and titanc inspect read what titanc build wrote; such a file starts with TITANAOT.",
    ),
    row(
        "T0602",
        "artifact of another format version",
        "A program reads the format version it was built with and no other. Build the artifact again with the titanc \
         of the same release.",
    ),
    row(
        "T0603",
        "artifact of another length",
        "The header records the length of the file. A shorter file was cut while copying, a longer one had bytes \
         added.",
    ),
    row(
        "T0604",
        "damaged artifact",
        "Every section has a BLAKE3 hash, and so has the header. Nothing of a file is used before all agree.",
    ),
    row(
        "T0605",
        "artifact section cannot be decoded",
        "The bytes agree with their hash but are not what this release writes there.",
    ),
    row(
        "T0606",
        "no plan for this number of ranks",
        "An artifact holds a plan for each number of ranks it was built for: titan.world_size, or titan.ranks when \
         the shard degree is open. titan-run takes --nodes times --nproc-per-node.",
    ),
    row(
        "T0607",
        "machine lacks CPU features",
        "Kernels are generated for a level of CPU features, recorded in the artifact. Build for the level of the \
         machine that runs it.",
    ),
    row("T0608", "artifact for another device", "The target of an artifact decides what runs it."),
    row(
        "T0610",
        "file cannot be written",
        "The artifact or program could not be written or moved to its place. It is first written beside its place under a \
         temporary name; nothing half-written stays.",
    ),
    row(
        "T0611",
        "artifact holds no program text",
        "The text of the program is kept only when asked for, with --emit-ir or titan.keep_ir, because plans do not need it.",
    ),
    row(
        "T0702",
        "more steps than the schedule has",
        "The learning rate of every step is computed from the configuration at load, for as many steps as \
         training.steps or lr_scheduler.total_steps says.",
    ),
    row(
        "T0703",
        "memory cannot be mapped",
        "All memory of a rank is mapped before the first step, exactly as much as the plan says. The system refused.",
    ),
    row(
        "T0704",
        "file of metrics cannot be written",
        "--metrics-json names a file the run cannot create or extend.",
    ),
    row(
        "T0705",
        "run does not fit this machine",
        "All ranks of a run are threads of one process, so their memory together must fit the machine. The plan of a rank is exact: \
         `titanc inspect` shows where its bytes go.",
    ),
    row(
        "T0706",
        "thread refused",
        "Every rank is a thread, with worker threads of its own. The system's limit on threads or memory was reached: see `ulimit -u`.",
    ),
    row(
        "T0710",
        "value that is not finite",
        "A loss or gradient became infinite or not a number. The step was stopped before the optimizer and run again \
         to find the first such value.",
    ),
    row(
        "T0711",
        "weight without a Hugging Face name",
        "A file in Hugging Face's names can start a model whose definition says what Hugging Face calls its weights.",
    ),
    row(
        "T0740",
        "CANN is not found",
        "The libraries of CANN are opened at run time: from the path given, or from lib64 of ASCEND_HOME_PATH and \
         ASCEND_TOOLKIT_HOME and where the dynamic loader looks. Source CANN's set_env.sh, or give its path.",
    ),
    row(
        "T0741",
        "this CANN lacks a function",
        "A library of CANN was opened but does not have a function that is needed. The message names the versions of CANN \
         known to have it.",
    ),
    row(
        "T0742",
        "a call of CANN failed",
        "A function of CANN returned an error. The message has the status' name and what CANN said about it on that thread. \
         An error of the device (507xxx) belongs to work queued earlier than the call that returned it.",
    ),
    row(
        "T0750",
        "arguments of a CANN operator do not fit",
        "An operator of CANN was called by name with values that are not of its parameters' types. The artifact and titan-run \
         disagree about the operator: build the artifact again with the titanc of this release.",
    ),
    row(
        "T0751",
        "unknown CANN operator",
        "The artifact names an operator that this titan-run does not know. Build it again with the titanc of this release.",
    ),
    row(
        "T0752",
        "CANN is too old",
        "Capture of graphs and the operators of a training step need CANN 8.5. Install a newer toolkit (and a \
         driver that goes with it) and source its set_env.sh.",
    ),
    row(
        "T0753",
        "artifact for another Ascend device",
        "Kernels, workspaces and capture rules depend on the exact device, as aclrtGetSocName names it. Rebuild \
         the artifact for the device of this machine with --target.",
    ),
    row(
        "T0754",
        "not enough devices",
        "Every rank of a process has a device of its own: rank i of it has device --first-device + i of those \
         that ASCEND_RT_VISIBLE_DEVICES leaves.",
    ),
    row(
        "T0755",
        "device memory is not enough",
        "The arena of a rank is one range of device memory whose size the artifact states, and HCCL takes buffers \
         of its own beside it. Other programs may hold the rest: look at npu-smi info.",
    ),
    row(
        "T0756",
        "an operator demands more workspace than planned",
        "The artifact reserves a bound of workspace per stream, because operators say what they need only on the \
         device. Rebuild with the titan.ascend_workspace_mib that the message gives.",
    ),
    row(
        "T0757",
        "no device compiler for kernels",
        "Generated kernels travel as source when the build machine had no bishengir-compile. The device machine \
         then compiles them once; it needs the compiler in PATH or in TITAN_BISHENGIR.",
    ),
    row(
        "T0758",
        "compiled kernels cannot be kept",
        "Kernels compiled on this machine are kept in a folder, so that the next run starts at once. This run \
         goes on; give a folder that can be written with --kernel-cache.",
    ),
    row(
        "T0759",
        "the step cannot be captured",
        "CANN refused to record the calls of a part of the step as a graph. The message has the call and CANN's \
         reason. --no-capture issues the same calls in every step instead.",
    ),
    row(
        "T0762",
        "processes did not meet",
        "The process of rank 0 listens at the address of --rendezvous, the others connect to it, and all wait at \
         most --rendezvous-timeout seconds for each other.",
    ),
    row(
        "T0763",
        "processes do not fit together",
        "All processes of a run need the same artifact and number of steps, and each rank is in one of them. The \
         message says which process differs and how.",
    ),
    row(
        "T0764",
        "another process failed",
        "A run ends when one of its processes fails or vanishes. The message repeats what that process said \
         first; its own output has the whole story.",
    ),
    row(
        "T0765",
        "options do not make a run",
        "The options on ranks and processes contradict each other or miss one. A run of several processes needs \
         --world-size, --first-rank, --nproc-per-node and --rendezvous, or the variables of a launcher.",
    ),
    row(
        "T0766",
        "rank table cannot be read",
        "--rank-table names HCCL's JSON file that lists servers, devices and their addresses. Every process needs \
         to be able to read it.",
    ),
    row(
        "T0768",
        "report cannot be written",
        "The file of --report is checked before training starts. Give a path in a folder that exists and can be \
         written.",
    ),
    row(
        "T0800",
        "unknown dataset",
        "training.dataset names one of torchtitan's datasets: c4_test, c4 or c4_validation. For text of your own keep one of \
         these names, which decides how ranks share the records, and set training.dataset_path.",
    ),
    row(
        "T0801",
        "dataset is on the network",
        "c4 and c4_validation without a path are downloaded by torchtitan. titan-run opens no network connection: set \
         training.dataset_path to a folder that holds the downloaded .json.gz files.",
    ),
    row(
        "T0802",
        "no training text there",
        "training.dataset_path does not exist or holds no file with a known ending: .json, .jsonl, .ndjson (one JSON object \
         with a field `text` a line), .txt, .md, .text (one record a file), each also as .gz or .zst. Sub-folders are \
         searched, hidden entries are not. A folder that holds JSON lines is read as those alone.",
    ),
    row(
        "T0803",
        "data file cannot be read",
        "The operating system refused to open or read a file or folder of the dataset.",
    ),
    row(
        "T0804",
        "compressed file damaged",
        "A .gz or .zst file of the dataset is empty, cut short, or does not match its own checksum. Nothing after the damage \
         can be trusted, so training stops instead of going on with less text.",
    ),
    row(
        "T0805",
        "not a JSON record",
        "Every line of a JSON-lines file is one object with a string field `text`; other fields are passed over, and so are \
         empty lines. A file that holds one large JSON array must be rewritten with one object a line.",
    ),
    row(
        "T0806",
        "text is not UTF-8",
        "Training text is UTF-8, with or without a byte order mark. Convert other encodings first.",
    ),
    row(
        "T0807",
        "record too large",
        "One record is larger than 256 MiB, the most that is held in memory at once. Usually a JSON-lines file lost its line \
         ends.",
    ),
    row(
        "T0808",
        "dataset empty",
        "A data-parallel rank would never get a token: the dataset has no records, fewer records than ranks, or only records \
         without a token.",
    ),
    row(
        "T0809",
        "dataset starts again",
        "All records of a rank were used and the rank begins again with its first one, as torchtitan does. Tokens left over \
         from the last record are kept.",
    ),
    row(
        "T0810",
        "saved data position does not fit",
        "The position in the data was saved for another rank, another number of data-parallel ranks, or another dataset. \
         Positions cannot be moved to a different number of ranks.",
    ),
    row(
        "T0820",
        "tokenizer missing",
        "model.hf_assets_path must be a folder with tokenizer.json (and tokenizer_config.json, which names the tokens that \
         begin and end a text), or with vocab.json or vocab.txt and merges.txt. Only torchtitan's default folder, \
         ./tests/assets/tokenizer, may be missing: it stands for the small tokenizer shipped with the project.",
    ),
    row(
        "T0821",
        "tokenizer damaged",
        "A file of the tokenizer is not what its name says: not JSON, cut short, or merges that do not fit the vocabulary. It \
         is also reported when the tokenizer has no id for a text, as a word list without [UNK].",
    ),
    row(
        "T0822",
        "token outside the vocabulary",
        "The text became a token whose id the model has no embedding for. The model's vocabulary is \
         titan.model_args.vocab_size or its flavor's own; it must be at least the tokenizer's size. Checked before a batch \
         reaches the device.",
    ),
    row(
        "T0830",
        "token file of another shape",
        "--tokens needs a safetensors file with a tensor `tokens`, I32 or I64, of shape [steps x accumulation, local batch x \
         data-parallel ranks, sequence length + 1].",
    ),
    row(
        "T0831",
        "token file used up",
        "A token file is read once. It needs an entry for every accumulation step of every training step.",
    ),
    row(
        "T0840",
        "weights file cannot be read",
        "The file is missing, is not safetensors, is cut short, or its index names files or tensors that are not there. \
         Nothing of it was used.",
    ),
    row(
        "T0841",
        "weights do not fit the model",
        "Names and shapes must be exactly the model's: a missing tensor would train from a random start unnoticed, and an \
         extra one usually means another model. The finding lists them.",
    ),
    row(
        "T0842",
        "weights of another type",
        "Weights are read from F32, BF16 and F16 tensors; other types are not converted.",
    ),
    row(
        "T0843",
        "weights file cannot be written",
        "The file is written beside its place and renamed when complete, so an older file is untouched. Free some space or \
         choose another folder.",
    ),
    row(
        "T0901",
        "nothing of that name",
        "The code given to `titanc explain` or the text given to `titanc keys` matches nothing.",
    ),
    row(
        "T0902",
        "result cannot be written",
        "Standard output cannot be written, for example because the disk behind it is full.",
    ),
    row(
        "T0910",
        "unknown option",
        "An override is --section.key value, with the names of the TOML file; - and _ may be exchanged. `titanc keys` lists \
         them.",
    ),
    row(
        "T0911",
        "option needs a value",
        "Every override except a boolean one takes a value: --training.steps 10 or --training.steps=10.",
    ),
    row(
        "T0912",
        "boolean option with a value",
        "Booleans are flags: --compile.enable switches on, --compile.no_enable switches off. --compile.enable=false is not \
         accepted, by torchtitan neither.",
    ),
    row(
        "T0913",
        "unexpected argument",
        "An argument among the overrides starts with no dash and belongs to no option. A boolean option takes no value, and a \
         list is one argument with commas: --model.converters a,b.",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    #[test]
    fn codes_are_sorted_unique_and_explained() {
        for pair in CODES.windows(2) {
            assert!(pair[0].code < pair[1].code, "{} must come before {}", pair[1].code, pair[0].code);
        }
        for code in CODES {
            assert!(is_code(code.code), "{} is not T and four digits", code.code);
            assert!(
                !code.title.is_empty() && code.explanation.len() > 40,
                "{} needs an explanation",
                code.code
            );
        }
    }

    #[test]
    fn explain_ignores_letter_case() {
        assert_eq!(explain("t0402").map(|c| c.title), Some("unknown key"));
        assert_eq!(explain("T9999"), None);
    }

    #[test]
    fn every_code_in_the_sources_is_listed() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut used = BTreeSet::new();
        for member in ["ir", "passes", "compiler", "runtime", "tests", "examples"] {
            collect(&root.join(member), &mut used);
        }
        assert!(used.contains("T0402"), "the scan found no sources");
        let missing: Vec<_> = used.iter().filter(|code| explain(code).is_none()).collect();
        assert!(missing.is_empty(), "add these codes to ir/src/codes.rs: {missing:?}");
    }

    fn is_code(text: &str) -> bool {
        text.len() == 5 && text.starts_with('T') && text.bytes().skip(1).all(|b| b.is_ascii_digit())
    }

    /// Adds every code that stands as a whole string literal in the Rust sources below `folder`.
    fn collect(folder: &Path, used: &mut BTreeSet<String>) {
        let Ok(entries) = std::fs::read_dir(folder) else { return };
        for path in entries.map(|e| e.unwrap().path()) {
            if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
                collect(&path, used);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                used.extend(text.split('"').filter(|t| is_code(t) && *t != "T9999").map(str::to_string));
            }
        }
    }
}
