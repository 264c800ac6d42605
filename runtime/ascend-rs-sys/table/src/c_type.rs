//! C types as the table writes them, and their Rust form.

use std::fmt;

/// A type: a named base, pointers to it, and at most one array length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CType {
    /// Name of the base type.
    pub base: String,
    /// Whether the base is const.
    pub is_const: bool,
    /// One entry per `*`, outermost last: whether that pointer itself is const.
    pub pointers: Vec<bool>,
    /// Length of an array member.
    pub array: Option<usize>,
}

/// A parameter of a function or a member of a struct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// The type.
    pub ty: CType,
    /// The name.
    pub name: String,
}

/// Base types of the C language and their Rust names.
const PRIMITIVES: [(&str, &str); 17] = [
    ("void", "c_void"),
    ("bool", "bool"),
    ("char", "c_char"),
    ("int", "c_int"),
    ("unsigned char", "u8"),
    ("int8_t", "i8"),
    ("int16_t", "i16"),
    ("int32_t", "i32"),
    ("int64_t", "i64"),
    ("uint8_t", "u8"),
    ("uint16_t", "u16"),
    ("uint32_t", "u32"),
    ("uint64_t", "u64"),
    ("size_t", "usize"),
    ("float", "f32"),
    ("double", "f64"),
    ("uintptr_t", "usize"),
];

/// Whether `base` is a type of the C language, known without a declaration.
pub fn is_primitive(base: &str) -> bool {
    PRIMITIVES.iter().any(|(c, _)| *c == base)
}

impl CType {
    /// Parses a type without a name, such as `const aclTensor* const*`.
    ///
    /// # Errors
    /// The text, if it is no type.
    pub fn parse(text: &str) -> Result<Self, String> {
        let spaced = text.replace('*', " * ");
        let (mut base, mut is_const, mut pointers) = (Vec::new(), false, Vec::<bool>::new());
        for token in spaced.split_whitespace() {
            match (token, pointers.last_mut()) {
                ("*", _) => pointers.push(false),
                ("const", Some(pointer)) => *pointer = true,
                ("const", None) => is_const = true,
                (word, None) if is_identifier(word) => base.push(word),
                _ => return Err(format!("`{text}` is not a type")),
            }
        }
        if base.is_empty() {
            return Err(format!("`{text}` is not a type"));
        }
        Ok(Self { base: base.join(" "), is_const, pointers, array: None })
    }

    /// Whether this is plain `void`.
    pub fn is_void(&self) -> bool {
        self.base == "void" && self.pointers.is_empty()
    }

    /// The Rust type that is passed the same way.
    pub fn rust(&self) -> String {
        let base = PRIMITIVES.iter().find(|(c, _)| *c == self.base).map_or(self.base.as_str(), |(_, r)| r);
        let mut text = base.to_owned();
        let mut pointee_is_const = self.is_const;
        for &pointer_is_const in &self.pointers {
            text = format!("*{} {text}", if pointee_is_const { "const" } else { "mut" });
            pointee_is_const = pointer_is_const;
        }
        match self.array {
            Some(len) => format!("[{text}; {len}]"),
            None => text,
        }
    }
}

impl fmt::Display for CType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_const {
            f.write_str("const ")?;
        }
        f.write_str(&self.base)?;
        for &is_const in &self.pointers {
            f.write_str(if is_const { "* const" } else { "*" })?;
        }
        Ok(())
    }
}

impl Variable {
    /// Parses a type and a name, such as `const char* path` or `char name[32]`.
    ///
    /// # Errors
    /// The text, if it is no declaration.
    pub fn parse(text: &str) -> Result<Self, String> {
        let fault = || format!("`{text}` is not a declaration");
        let (rest, array) = match text.trim().strip_suffix(']') {
            Some(rest) => {
                let (rest, len) = rest.rsplit_once('[').ok_or_else(fault)?;
                (rest, Some(len.trim().parse().map_err(|_| fault())?))
            }
            None => (text.trim(), None),
        };
        let start = rest.rfind(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).map_or(0, |i| i + 1);
        let (ty, name) = rest.split_at(start);
        if !is_identifier(name) || name == "const" {
            return Err(fault());
        }
        Ok(Self { ty: CType { array, ..CType::parse(ty)? }, name: name.to_owned() })
    }

    /// The name in Rust: an underscore is added where it is a word of the language.
    pub fn rust_name(&self) -> String {
        const WORDS: [&str; 36] = [
            "as", "async", "await", "break", "const", "continue", "crate", "dyn", "else", "enum", "extern",
            "false", "fn", "for", "if", "impl", "in", "let", "loop", "match", "mod", "move", "mut", "pub",
            "ref", "return", "self", "static", "struct", "super", "trait", "true", "type", "unsafe", "use",
            "where",
        ];
        if WORDS.contains(&self.name.as_str()) { format!("{}_", self.name) } else { self.name.clone() }
    }
}

impl fmt::Display for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.ty, self.name)?;
        self.ty.array.map_or(Ok(()), |len| write!(f, "[{len}]"))
    }
}

/// Whether `text` is a C identifier.
pub fn is_identifier(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && text.starts_with(|c: char| !c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_are_const_where_c_says_so() {
        for (c, rust) in [
            ("const aclTensor* const* value", "*const *const aclTensor"),
            ("const aclCannAttr** list", "*mut *const aclCannAttr"),
            ("int32_t* const id", "*mut i32"),
            ("const void* const data", "*const c_void"),
            ("const bool flag", "bool"),
            ("char name[128]", "[c_char; 128]"),
        ] {
            let variable = Variable::parse(c).unwrap();
            assert_eq!(variable.ty.rust(), rust, "{c}");
            assert_eq!(variable.to_string(), c);
        }
    }

    #[test]
    fn what_is_no_declaration_is_refused() {
        for text in ["", "int32_t", "*x", "int32_t* const", "char x[n]", "a+b c", "int 3x"] {
            assert!(Variable::parse(text).is_err(), "{text}");
        }
    }
}
