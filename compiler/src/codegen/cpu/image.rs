//! The kernels of an artifact as one position-independent image of code and constants.

use super::builder::FUNCTION;
use super::level::CpuLevel;
use super::lower::Lowering;
use object::read::elf::{ElfFile64, ElfSymbol64};
use object::{
    Endianness, Object, ObjectSection, ObjectSymbol, Relocation, RelocationFlags, RelocationTarget,
    SectionIndex, SectionKind, SymbolSection, elf,
};
use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use titan_ir::ice;
use titan_ir::kernel::RowKernel;

/// Code and constants of kernels. It runs wherever it is mapped, read-only and executable, at a page boundary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The bytes, a whole number of pages.
    pub bytes: Vec<u8>,
    /// The offset of each kernel's entry, in the order the kernels were given. **Units**: bytes.
    pub entries: Vec<u64>,
}

/// Bytes of a page, by which an image is padded.
const PAGE_BYTES: usize = 4096;

/// Alignment of each section in the image: a cache line, and the largest vector.
const SECTION_ALIGN_BYTES: usize = 64;

/// Compiles kernels, on all cores. The bytes depend on the kernels and the level alone: each kernel is a module of its own.
pub fn compile(kernels: &[RowKernel], level: CpuLevel) -> Image {
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get).min(kernels.len());
    compile_on(kernels, level, threads)
}

/// [`compile`] on that many threads.
pub fn compile_on(kernels: &[RowKernel], level: CpuLevel, threads: usize) -> Image {
    let objects: Vec<Mutex<Vec<u8>>> = kernels.iter().map(|_| Mutex::default()).collect();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let lowering = Lowering::new(level);
                while let Some(k) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&k| k < kernels.len())
                {
                    *objects[k].lock().expect("no thread panicked") = lowering.object(&kernels[k]);
                }
            });
        }
    });
    let mut image = Image { bytes: Vec::new(), entries: Vec::new() };
    for object in objects {
        image.link(&object.into_inner().expect("no thread panicked"));
    }
    image.bytes.resize(image.bytes.len().next_multiple_of(PAGE_BYTES), 0);
    image
}

impl Image {
    /// Appends the sections of one kernel and resolves their references to each other.
    fn link(&mut self, object: &[u8]) {
        let file =
            ElfFile64::<Endianness>::parse(object).unwrap_or_else(|e| ice!("LLVM wrote a bad object: {e}"));
        let starts = self.lay_out(&file);
        for (&index, &start) in &starts {
            let section = file.section_by_index(SectionIndex(index)).expect("an index of this file");
            for (offset, relocation) in section.relocations() {
                self.relocate(&file, &starts, start + offset as usize, &relocation);
            }
        }
        let entry = file
            .symbols()
            .find(|symbol| symbol.name() == Ok(FUNCTION))
            .and_then(|symbol| place(&starts, &symbol))
            .unwrap_or_else(|| ice!("a kernel has no entry"));
        self.entries.push(entry as u64);
    }

    /// Appends the sections that are needed at run time; returns where each is, by index.
    fn lay_out(&mut self, file: &ElfFile64<'_>) -> BTreeMap<usize, usize> {
        let mut starts = BTreeMap::new();
        for section in file.sections().filter(|s| s.size() > 0) {
            match section.kind() {
                SectionKind::Text | SectionKind::ReadOnlyData if section.name() != Ok(".eh_frame") => {}
                SectionKind::Data | SectionKind::UninitializedData => ice!("a kernel has writable data"),
                _ => continue,
            }
            let align = SECTION_ALIGN_BYTES.max(section.align() as usize);
            self.bytes.resize(self.bytes.len().next_multiple_of(align), 0);
            starts.insert(section.index().0, self.bytes.len());
            self.bytes.extend(section.data().unwrap_or_else(|e| ice!("LLVM wrote a bad section: {e}")));
        }
        starts
    }

    /// Resolves one reference, at offset `at` of the image. It must be relative, to a place in the image: nothing is left to the loader.
    fn relocate(
        &mut self,
        file: &ElfFile64<'_>,
        starts: &BTreeMap<usize, usize>,
        at: usize,
        relocation: &Relocation,
    ) {
        let RelocationTarget::Symbol(symbol) = relocation.target() else {
            ice!("a relocation without a symbol");
        };
        let symbol = file.symbol_by_index(symbol).expect("an index of this file");
        let name = symbol.name().unwrap_or("?");
        let Some(target) = place(starts, &symbol) else {
            ice!("a kernel refers to {name} outside of itself")
        };
        let kind = relocation.flags();
        if !matches!(kind, RelocationFlags::Elf { r_type: elf::R_X86_64_PC32 | elf::R_X86_64_PLT32 }) {
            ice!("a kernel refers to {name} by {kind:?}, which depends on its position");
        }
        let distance = target as i64 + relocation.addend() - at as i64;
        let distance = i32::try_from(distance).expect("an image is smaller than 2 GiB");
        self.bytes[at..at + 4].copy_from_slice(&distance.to_le_bytes());
    }
}

/// Where a symbol is in the image.
fn place(starts: &BTreeMap<usize, usize>, symbol: &ElfSymbol64<'_, '_>) -> Option<usize> {
    let SymbolSection::Section(section) = symbol.section() else { return None };
    starts.get(&section.0).map(|start| start + symbol.address() as usize)
}
