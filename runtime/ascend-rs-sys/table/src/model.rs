//! What the table says, as data.

use crate::c_type::{CType, Variable};
use std::fmt;

/// The libraries of CANN, by the name of the file that has always held them or, if that was split, of the newest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Library {
    /// The ACL runtime.
    AclRt,
    /// Descriptors and executors of operators.
    Nnopbase,
    /// Collectives.
    Hccl,
    /// The operators.
    Aclnn,
}

impl Library {
    /// All libraries with their names in the table.
    pub const ALL: [(&'static str, Self); 4] =
        [("acl_rt", Self::AclRt), ("nnopbase", Self::Nnopbase), ("hccl", Self::Hccl), ("aclnn", Self::Aclnn)];
}

/// The oldest version of CANN whose headers were seen to declare a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Since {
    /// 8.5.
    V8_5,
    /// 9.1; absent from what was seen of 8.5, whose headers may not have been complete.
    V9_1,
    /// Later than 9.1.
    Next,
    /// Some version before August 2026.
    Unknown,
}

impl Since {
    /// All with their tags.
    pub const ALL: [(&'static str, Self); 4] =
        [("8.5", Self::V8_5), ("9.1", Self::V9_1), ("next", Self::Next), ("?", Self::Unknown)];

    /// The tag in the table.
    pub fn tag(self) -> &'static str {
        Self::ALL.iter().find(|(_, s)| *s == self).expect("all are listed").0
    }
}

/// A C function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// The symbol.
    pub name: String,
    /// Where it lives.
    pub library: Library,
    /// Result type.
    pub result: CType,
    /// Parameters in order.
    pub parameters: Vec<Variable>,
    /// Which versions have it.
    pub since: Since,
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}({})", self.result, self.name, join(&self.parameters, ", "))
    }
}

/// An operator of two phases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operator {
    /// Name of phase two; phase one has `GetWorkspaceSize` appended.
    pub name: String,
    /// Repository that holds it.
    pub repository: String,
    /// Where the signature was read: H, D or P.
    pub source: char,
    /// Parameters of phase one, without the last two.
    pub parameters: Vec<Variable>,
}

impl Operator {
    /// Both C functions, phase one first.
    pub fn functions(&self) -> [Function; 2] {
        let parse = |text: &str| Variable::parse(text).expect("a fixed declaration");
        let tail = ["uint64_t* workspaceSize", "aclOpExecutor** executor"];
        let run =
            ["void* workspace", "uint64_t workspaceSize", "aclOpExecutor* executor", "aclrtStream stream"];
        let function = |name: String, parameters| Function {
            name,
            library: Library::Aclnn,
            result: CType::parse("aclnnStatus").expect("a fixed type"),
            parameters,
            since: Since::Unknown,
        };
        [
            function(
                format!("{}GetWorkspaceSize", self.name),
                self.parameters.iter().cloned().chain(tail.map(parse)).collect(),
            ),
            function(self.name.clone(), run.map(parse).into()),
        ]
    }
}

/// A member of a struct or union.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Member {
    /// A variable.
    Variable(Variable),
    /// A union written in place: its members and its name, which is empty if it has none.
    Union(Vec<Variable>, String),
}

/// What a declared type is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TypeKind {
    /// An alias of `void*`.
    Handle,
    /// A struct whose members are hidden.
    Opaque,
    /// Another name of a type.
    Alias(CType),
    /// A pointer to a function.
    Callback(CType, Vec<Variable>),
    /// Names and values.
    Enum(Vec<(String, i64)>),
    /// Members in order.
    Struct(Vec<Member>),
    /// Members that share their place.
    Union(Vec<Variable>),
}

/// A declared type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Type {
    /// The name.
    pub name: String,
    /// What it is.
    pub kind: TypeKind,
}

/// A named number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Constant {
    /// The name.
    pub name: String,
    /// Its type.
    pub ty: CType,
    /// Its value.
    pub value: i64,
}

/// A status a function may return.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The number.
    pub code: i32,
    /// Its name.
    pub name: String,
    /// The library whose statuses it belongs to.
    pub library: Library,
}

/// The whole table, in the order written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    /// Declared types.
    pub types: Vec<Type>,
    /// Named numbers.
    pub constants: Vec<Constant>,
    /// Statuses.
    pub statuses: Vec<Status>,
    /// Functions that are no operators.
    pub functions: Vec<Function>,
    /// Operators.
    pub operators: Vec<Operator>,
}

impl Table {
    /// Every function of `library`, operators by their two.
    pub fn functions_of(&self, library: Library) -> Vec<Function> {
        let plain = self.functions.iter().filter(|f| f.library == library).cloned();
        if library == Library::Aclnn {
            plain.chain(self.operators.iter().flat_map(Operator::functions)).collect()
        } else {
            plain.collect()
        }
    }

    /// Every function.
    pub fn all_functions(&self) -> Vec<Function> {
        Library::ALL.iter().flat_map(|(_, library)| self.functions_of(*library)).collect()
    }

    /// The type called `name`.
    pub fn find_type(&self, name: &str) -> Option<&Type> {
        self.types.iter().find(|t| t.name == name)
    }
}

/// The items, printed, with `separator` between.
pub fn join<T: fmt::Display>(items: &[T], separator: &str) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(separator)
}
