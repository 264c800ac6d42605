//! Parsing.

use super::cursor::Cursor;
use super::init::parse_init;
use super::lexer::Token;
use super::printer::{PHASES, REDUCES, ROLES, STAGES};
use crate::attrs::{Attr, AttrReader};
use crate::{
    Axis, AxisId, DType, Diag, DiagResult, Func, Init, Layout, LocId, Mesh, Module, Node, Op, Param, Phase,
    Placement, ResultKind, Role, TensorType, ValueId, Values,
};
use std::collections::BTreeMap;

/// The module of a text; `file` names it in messages. It is not verified.
///
/// # Errors
/// T00xx for the first fault of the text; T01xx when a type that was left out cannot be inferred.
pub fn parse(file: &str, source: &str) -> DiagResult<Module> {
    let mut c = Cursor::new(file, source)?;
    c.field("stage")?;
    let stage = c.choice("a stage", &STAGES)?;
    c.field("mesh")?;
    let mut module = Module { stage, mesh: parse_mesh(&mut c)?, funcs: Vec::new() };
    while c.eat_word("func") {
        let parser = FuncParser { mesh: &module.mesh, func: Func::new(""), values: BTreeMap::new() };
        let func = parser.func(&mut c)?;
        module.funcs.push(func);
    }
    if *c.peek() == Token::Word("stage") {
        return Err(c.place(
            Diag::new("T0008", "another program begins here; a file holds one")
                .help("keep one of them; `titanc build --dump-ir DIR` writes each to a file of its own"),
        ));
    }
    if *c.peek() != Token::End {
        return Err(c.expected("`func` or the end of the file"));
    }
    Ok(module)
}

fn parse_mesh(c: &mut Cursor<'_>) -> DiagResult<Mesh> {
    c.sign('[')?;
    let axes = c.list(']', |c| {
        let name = c.word("the name of a mesh axis")?.to_owned();
        c.sign('=')?;
        Ok(Axis { name, size: c.uint()? })
    })?;
    Ok(Mesh { axes })
}

struct FuncParser<'a> {
    mesh: &'a Mesh,
    func: Func,
    values: BTreeMap<&'a str, ValueId>,
}

impl<'a> FuncParser<'a> {
    fn func(mut self, c: &mut Cursor<'a>) -> DiagResult<Func> {
        c.sign('@')?;
        self.func.name = c.word("the name of the function")?.to_owned();
        c.sign('(')?;
        c.list(')', |c| self.param(c))?;
        c.keyword("repeat")?;
        self.func.repeat = c.uint()?;
        c.sign('{')?;
        while !c.eat_sign('}') {
            match *c.peek() {
                Token::Word("update" | "output") => self.result(c)?,
                Token::Value(_) => self.node(c)?,
                _ => return Err(c.expected("an operation, `update`, `output` or `}`")),
            }
        }
        (self.func.loc, self.func.phase) = (LocId(0), Phase::Forward);
        Ok(self.func)
    }

    fn define(&mut self, c: &Cursor<'_>, at: usize, name: &'a str, ty: TensorType) -> DiagResult<ValueId> {
        let value = self.func.new_value(ty);
        if self.values.insert(name, value).is_some() {
            return Err(c.place_from(at, Diag::new("T0006", format!("value `%{name}` is defined twice"))));
        }
        Ok(value)
    }

    fn operand(&self, c: &mut Cursor<'a>) -> DiagResult<ValueId> {
        let at = c.position();
        let name = c.value()?;
        let unknown =
            || c.place_from(at, Diag::new("T0005", format!("value `%{name}` is not defined above")));
        self.values.get(name).copied().ok_or_else(unknown)
    }

    fn param(&mut self, c: &mut Cursor<'a>) -> DiagResult<()> {
        let at = c.position();
        let name = c.value()?;
        c.sign(':')?;
        let ty = self.tensor_type(c)?;
        let value = self.define(c, at, name, ty.clone())?;
        let mut param = Param {
            value,
            name: String::new(),
            role: Role::Input,
            init: Init::Host,
            global_dims: ty.dims,
            layout: ty.layout,
        };
        c.sign('{')?;
        c.list('}', |c| {
            let key = c.word("a property of the parameter")?;
            c.sign('=')?;
            match key {
                "role" => param.role = c.choice("a role", &ROLES)?,
                "name" => param.name = c.string()?,
                "init" => param.init = parse_init(c)?,
                "global" => param.global_dims = c.dims()?,
                "layout" => {
                    c.sign('@')?;
                    param.layout = self.layout(c)?;
                }
                _ => {
                    let diag = Diag::new("T0002", format!("a parameter has no property `{key}`"));
                    return Err(c.place(diag).help("role, name, init, global or layout"));
                }
            }
            Ok(())
        })?;
        self.func.params.push(param);
        Ok(())
    }

    fn node(&mut self, c: &mut Cursor<'a>) -> DiagResult<()> {
        let start = c.position();
        let mut outs = vec![(c.position(), c.value()?)];
        while c.eat_sign(',') {
            outs.push((c.position(), c.value()?));
        }
        c.sign('=')?;
        let at = c.position();
        let name = c.word("an op")?;
        let mut ins = Values::new();
        if let Token::Value(_) = c.peek() {
            ins.push(self.operand(c)?);
            while c.eat_sign(',') {
                ins.push(self.operand(c)?);
            }
        }
        let attrs = if c.eat_sign('{') { c.list('}', |c| self.attr(c))? } else { Vec::new() };
        if let Some(i) = (1..attrs.len()).find(|&i| attrs[..i].iter().any(|(n, _)| *n == attrs[i].0)) {
            let diag = Diag::new("T0004", format!("attribute `{}` is given twice", attrs[i].0));
            return Err(c.place_from(at, diag));
        }
        let mut reader = AttrReader::new(name, attrs);
        let op = Op::from_text(name, &mut reader).map_err(|diag| c.place_from(at, diag))?;
        let types = if c.eat_sign(':') {
            let mut types = vec![self.tensor_type(c)?];
            while c.eat_sign(',') {
                types.push(self.tensor_type(c)?);
            }
            types
        } else {
            let operands: Vec<&TensorType> = ins.iter().map(|&v| self.func.ty(v)).collect();
            op.rules().infer(&operands).map_err(|diag| c.place_from(start, diag))?.into_vec()
        };
        if types.len() != outs.len() {
            let message = format!("{} results with {} types", outs.len(), types.len());
            return Err(c.place_from(start, Diag::new("T0002", message)));
        }
        self.suffix(c)?;
        let mut values = Values::new();
        for ((at, name), ty) in outs.into_iter().zip(types) {
            values.push(self.define(c, at, name, ty)?);
        }
        self.func.nodes.push(Node { op, ins, outs: values, loc: self.func.loc, phase: self.func.phase });
        Ok(())
    }

    /// Location and phase.
    fn suffix(&mut self, c: &mut Cursor<'a>) -> DiagResult<()> {
        self.func.loc = LocId(0);
        if c.eat_word("loc") {
            c.sign('(')?;
            let path = c.string()?;
            self.func.loc = self.func.intern(&path);
            c.sign(')')?;
        }
        self.func.phase = if c.eat_word("in") { c.choice("a phase", &PHASES)? } else { Phase::Forward };
        Ok(())
    }

    fn result(&mut self, c: &mut Cursor<'a>) -> DiagResult<()> {
        let kind = if c.eat_word("update") {
            let at = c.position();
            let value = self.operand(c)?;
            let param = self.func.params.iter().position(|p| p.value == value);
            let not =
                || c.place_from(at, Diag::new("T0005", "only parameters are updated, and this is none"));
            ResultKind::Update(param.ok_or_else(not)?)
        } else {
            c.keyword("output")?;
            ResultKind::Output(c.string()?)
        };
        c.sign('=')?;
        let value = self.operand(c)?;
        self.func.add_result(value, kind);
        Ok(())
    }

    fn axis(&self, c: &mut Cursor<'a>) -> DiagResult<AxisId> {
        let at = c.position();
        let name = c.word("a mesh axis")?;
        let unknown = || c.place_from(at, Diag::new("T0005", format!("the mesh has no axis `{name}`")));
        self.mesh.axis(name).ok_or_else(unknown)
    }

    fn layout(&self, c: &mut Cursor<'a>) -> DiagResult<Layout> {
        let mut layout = Layout::replicate();
        c.sign('[')?;
        c.list(']', |c| {
            let at = c.position();
            let axis = self.axis(c)?;
            c.sign(':')?;
            let placement = if c.eat_word("P") {
                c.sign('(')?;
                let reduce = c.choice("a reduction", &REDUCES)?;
                c.sign(')')?;
                Placement::Partial(reduce)
            } else {
                let word = c.word("a placement")?;
                let bad = || {
                    c.place_from(
                        at,
                        Diag::new("T0002", format!("`{word}` is no placement: S0, S1, .. or P(sum)")),
                    )
                };
                Placement::Shard(word.strip_prefix('S').and_then(|dim| dim.parse().ok()).ok_or_else(bad)?)
            };
            if layout.get(axis).is_some() {
                return Err(c.place_from(at, Diag::new("T0006", "two placements along one mesh axis")));
            }
            layout.set(axis, Some(placement));
            Ok(())
        })?;
        Ok(layout)
    }

    fn tensor_type(&self, c: &mut Cursor<'a>) -> DiagResult<TensorType> {
        let (dtype, dims) = (c.dtype()?, c.dims()?);
        let layout = if c.eat_sign('@') { self.layout(c)? } else { Layout::replicate() };
        Ok(TensorType { dtype, dims, layout })
    }

    fn attr(&self, c: &mut Cursor<'a>) -> DiagResult<(String, Attr)> {
        let name = c.word("an attribute")?.to_owned();
        c.sign('=')?;
        let value = match c.peek() {
            Token::Number(text) => {
                let whole = !text.contains(['.', 'e', 'E', 'n']) || text.starts_with("0x");
                if whole { Attr::Int(integer(c)?) } else { Attr::Float(c.real()?) }
            }
            Token::Str(_) => Attr::Str(c.string()?),
            Token::Sign('[') => Attr::Dims(c.dims()?),
            Token::Sign('(') => {
                c.sign('(')?;
                Attr::Types(c.list(')', |c| self.tensor_type(c))?)
            }
            Token::Sign('@') => {
                c.sign('@')?;
                let is_layout = *c.peek() == Token::Sign('[');
                if is_layout { Attr::Layout(self.layout(c)?) } else { Attr::Axis(self.axis(c)?) }
            }
            Token::Word("true" | "false") => Attr::Bool(c.boolean()?),
            Token::Word("inf" | "nan") => Attr::Float(c.real()?),
            Token::Word("sum" | "max") => Attr::Reduce(c.choice("a reduction", &REDUCES)?),
            Token::Word(word) if DType::from_name(word).is_some() => Attr::DType(c.dtype()?),
            Token::Word(_) => Attr::Kernel(crate::kernel::text::parse(c)?.into()),
            _ => return Err(c.expected("the value of an attribute")),
        };
        Ok((name, value))
    }
}

/// Reads a whole number with a sign.
fn integer(c: &mut Cursor<'_>) -> DiagResult<i64> {
    let at = c.position();
    let text = c.number("a whole number")?;
    let number = match text.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    number
        .map_err(|_| c.place_from(at, Diag::new("T0001", format!("`{text}` is not a whole number in range"))))
}
