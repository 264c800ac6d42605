//! The text form of the table: reading and writing.

use crate::c_type::{CType, Variable, is_identifier, is_primitive};
use crate::model::{Constant, Function, Library, Member, Operator, Since, Status, Table, Type, TypeKind};

/// Adds the entries of `text` to `table`.
///
/// # Errors
/// File, line and fault of the first entry that does not parse, names an unknown type or takes a name that is taken.
pub fn read(table: &mut Table, file: &str, text: &str) -> Result<(), String> {
    let mut library = None;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        entry(table, &mut library, line).map_err(|fault| format!("{file}:{}: {fault}", index + 1))?;
    }
    Ok(())
}

fn entry(table: &mut Table, library: &mut Option<Library>, line: &str) -> Result<(), String> {
    let (word, rest) = line.split_once(' ').ok_or("an entry begins with a word and a space")?;
    if word == "library" {
        let found = Library::ALL.iter().find(|(name, _)| *name == rest);
        *library = Some(found.ok_or_else(|| format!("no library is called `{rest}`"))?.1);
        return Ok(());
    }
    let rest = rest.strip_suffix(';').ok_or("an entry ends with `;`")?;
    let library = library.ok_or("`library` comes first")?;
    match word {
        "const" => {
            let constant = constant(rest)?;
            unique(table.constants.iter().map(|c| &c.name), &constant.name)?;
            table.constants.push(constant);
        }
        "code" => {
            let (code, name) = rest.split_once(' ').ok_or("a code has a number and a name")?;
            let code = code.parse().map_err(|_| format!("`{code}` is no code"))?;
            table.statuses.push(Status { code, name: name.to_owned(), library });
        }
        "fn" => {
            let function = function(table, rest, library)?;
            unique(table.functions.iter().map(|f| &f.name), &function.name)?;
            table.functions.push(function);
        }
        "op" => {
            let operator = operator(table, rest)?;
            unique(table.operators.iter().map(|o| &o.name), &operator.name)?;
            table.operators.push(operator);
        }
        _ => {
            let declared = declared(table, word, rest)?;
            unique(table.types.iter().map(|t| &t.name), &declared.name)?;
            table.types.push(declared);
        }
    }
    Ok(())
}

fn unique<'a>(mut taken: impl Iterator<Item = &'a String>, name: &str) -> Result<(), String> {
    if taken.any(|n| n == name) { Err(format!("`{name}` is declared twice")) } else { Ok(()) }
}

fn declared(table: &Table, word: &str, rest: &str) -> Result<Type, String> {
    let (name, kind) = match word {
        "handle" => (rest.to_owned(), TypeKind::Handle),
        "opaque" => (rest.to_owned(), TypeKind::Opaque),
        "alias" => {
            let (name, ty) = rest.split_once(" = ").ok_or("an alias has ` = `")?;
            (name.to_owned(), TypeKind::Alias(known(table, CType::parse(ty)?)?))
        }
        "callback" => {
            let (head, parameters) = call(table, rest)?;
            (head.name, TypeKind::Callback(head.ty, parameters))
        }
        "enum" => {
            let (name, body) = braces(rest)?;
            (name, TypeKind::Enum(body.split(", ").map(enumerator).collect::<Result<_, _>>()?))
        }
        "struct" => {
            let (name, body) = braces(rest)?;
            (name, TypeKind::Struct(members(table, body)?))
        }
        "union" => {
            let (name, body) = braces(rest)?;
            (name, TypeKind::Union(variables(table, body)?))
        }
        _ => return Err(format!("`{word}` is no kind of entry")),
    };
    if is_identifier(&name) { Ok(Type { name, kind }) } else { Err(format!("`{name}` is not a name")) }
}

/// `NAME { BODY }`.
fn braces(text: &str) -> Result<(String, &str), String> {
    let (name, body) = text.split_once(" { ").ok_or("` { ` is missing")?;
    Ok((name.to_owned(), body.strip_suffix(" }").ok_or("` }` is missing")?))
}

fn enumerator(text: &str) -> Result<(String, i64), String> {
    let (name, value) = text.split_once(" = ").ok_or_else(|| format!("`{text}` has no value"))?;
    Ok((name.to_owned(), number(value)?))
}

fn number(text: &str) -> Result<i64, String> {
    match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16),
        None => text.parse(),
    }
    .map_err(|_| format!("`{text}` is not a number"))
}

fn members(table: &Table, body: &str) -> Result<Vec<Member>, String> {
    let mut members = Vec::new();
    let mut rest = body.trim();
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix("union { ") {
            let (inner, after) = inner.split_once(" }").ok_or("` }` is missing")?;
            let (name, after) = after.split_once(';').ok_or("`;` is missing")?;
            members.push(Member::Union(variables(table, inner)?, name.trim().to_owned()));
            rest = after.trim_start();
        } else {
            let (member, after) = rest.split_once(';').ok_or("`;` is missing")?;
            members.push(Member::Variable(variable(table, member)?));
            rest = after.trim_start();
        }
    }
    Ok(members)
}

fn variables(table: &Table, body: &str) -> Result<Vec<Variable>, String> {
    let body = body.strip_suffix(';').ok_or("`;` is missing")?;
    body.split("; ").map(|text| variable(table, text)).collect()
}

fn variable(table: &Table, text: &str) -> Result<Variable, String> {
    let variable = Variable::parse(text)?;
    Ok(Variable { ty: known(table, variable.ty)?, name: variable.name })
}

fn known(table: &Table, ty: CType) -> Result<CType, String> {
    if is_primitive(&ty.base) || table.find_type(&ty.base).is_some() {
        Ok(ty)
    } else {
        Err(format!("the type `{}` is not declared", ty.base))
    }
}

/// `RESULT NAME(PARAMETERS)`.
fn call(table: &Table, text: &str) -> Result<(Variable, Vec<Variable>), String> {
    let (head, parameters) = text.split_once('(').ok_or("`(` is missing")?;
    let parameters = parameters.strip_suffix(')').ok_or("`)` is missing")?;
    let parameters = if parameters.is_empty() {
        Vec::new()
    } else {
        parameters.split(", ").map(|text| variable(table, text)).collect::<Result<_, _>>()?
    };
    Ok((variable(table, head)?, parameters))
}

/// `[TAG] REST`.
fn tagged(text: &str) -> Result<(&str, &str), String> {
    let rest = text.strip_prefix('[').ok_or("a tag is missing")?;
    rest.split_once("] ").ok_or_else(|| "`] ` is missing".to_owned())
}

fn function(table: &Table, text: &str, library: Library) -> Result<Function, String> {
    let (tag, rest) = tagged(text)?;
    let since = Since::ALL.iter().find(|(t, _)| *t == tag).ok_or_else(|| format!("`{tag}` is no tag"))?.1;
    let (head, parameters) = call(table, rest)?;
    Ok(Function { name: head.name, library, result: head.ty, parameters, since })
}

fn operator(table: &Table, text: &str) -> Result<Operator, String> {
    let (tag, rest) = tagged(text)?;
    let (repository, source) = tag.split_once(' ').ok_or("a tag names repository and source")?;
    let source = source.chars().next().filter(|c| "HDP".contains(*c)).ok_or("a source is H, D or P")?;
    // An operator's result is always its status.
    let (head, parameters) = call(table, &format!("aclnnStatus {rest}"))?;
    Ok(Operator { name: head.name, repository: repository.to_owned(), source, parameters })
}

fn constant(text: &str) -> Result<Constant, String> {
    let (declaration, value) = text.split_once(" = ").ok_or("` = ` is missing")?;
    let Variable { ty, name } = Variable::parse(declaration)?;
    Ok(Constant { name, ty, value: number(value)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> String {
        read(&mut Table::default(), "x", &format!("library acl_rt\n{text}")).unwrap_err()
    }

    #[test]
    fn faults_name_the_line() {
        for (text, expected) in [
            ("fn [8.5] int f(size_t n)", "x:2: an entry ends with `;`"),
            ("fn [8.5] int f(size n);", "x:2: the type `size` is not declared"),
            ("fn [8.4] int f();", "x:2: `8.4` is no tag"),
            ("handle a;\nhandle a;", "x:3: `a` is declared twice"),
            ("enum e { A };", "x:2: `A` has no value"),
            ("struct s { int x };", "x:2: `;` is missing"),
            ("const int N = ten;", "x:2: `ten` is not a number"),
            ("thing t;", "x:2: `thing` is no kind of entry"),
        ] {
            assert_eq!(fault(text), expected);
        }
    }
}
