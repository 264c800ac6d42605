//! Sizes and offsets of structs on 64-bit Linux, where x86-64 and aarch64 agree.

use crate::c_type::{CType, Variable};
use crate::model::{Member, Table, TypeKind};

/// Size and alignment, both in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Size in bytes.
    pub size_bytes: usize,
    /// Alignment in bytes.
    pub align_bytes: usize,
}

const POINTER: Layout = Layout { size_bytes: 8, align_bytes: 8 };

/// Layout of `ty`; none if it has no size.
pub fn of_type(table: &Table, ty: &CType) -> Option<Layout> {
    let one = if ty.pointers.is_empty() { of_base(table, &ty.base)? } else { POINTER };
    Some(Layout { size_bytes: one.size_bytes * ty.array.unwrap_or(1), ..one })
}

fn of_base(table: &Table, base: &str) -> Option<Layout> {
    let size = match base {
        "bool" | "char" | "unsigned char" | "int8_t" | "uint8_t" => 1,
        "int16_t" | "uint16_t" => 2,
        "int" | "int32_t" | "uint32_t" | "float" => 4,
        "int64_t" | "uint64_t" | "size_t" | "uintptr_t" | "double" => 8,
        _ => return of_kind(table, &table.find_type(base)?.kind),
    };
    Some(Layout { size_bytes: size, align_bytes: size })
}

/// Layout of a declared type; none if it has no size.
pub fn of_kind(table: &Table, kind: &TypeKind) -> Option<Layout> {
    match kind {
        TypeKind::Handle | TypeKind::Callback(..) => Some(POINTER),
        TypeKind::Opaque => None,
        TypeKind::Alias(ty) => of_type(table, ty),
        TypeKind::Enum(_) => Some(Layout { size_bytes: 4, align_bytes: 4 }),
        TypeKind::Struct(members) => of_members(table, members).map(|(layout, _)| layout),
        TypeKind::Union(members) => of_union(table, members),
    }
}

/// Layout of a struct of `members`, and the offset of each in bytes.
pub fn of_members(table: &Table, members: &[Member]) -> Option<(Layout, Vec<usize>)> {
    let (mut end, mut align, mut offsets) = (0usize, 1, Vec::new());
    for member in members {
        let layout = match member {
            Member::Variable(variable) => of_type(table, &variable.ty)?,
            Member::Union(members, _) => of_union(table, members)?,
        };
        let offset = end.next_multiple_of(layout.align_bytes);
        offsets.push(offset);
        end = offset + layout.size_bytes;
        align = align.max(layout.align_bytes);
    }
    Some((Layout { size_bytes: end.next_multiple_of(align), align_bytes: align }, offsets))
}

fn of_union(table: &Table, members: &[Variable]) -> Option<Layout> {
    let layouts = members.iter().map(|m| of_type(table, &m.ty)).collect::<Option<Vec<_>>>()?;
    let align = layouts.iter().map(|l| l.align_bytes).max()?;
    let size = layouts.iter().map(|l| l.size_bytes).max()?;
    Some(Layout { size_bytes: size.next_multiple_of(align), align_bytes: align })
}
