//! Constants: at the top of the function, one of a kind.

use super::{Builder, Elem, Val, elem_type};
use melior::ir::attribute::{DenseElementsAttribute, IntegerAttribute};
use melior::ir::operation::OperationBuilder;
use melior::ir::{Attribute, BlockLike, Identifier};

impl<'c, 'a> Builder<'c, 'a> {
    /// A constant with these bits in each lane.
    pub(in super::super) fn constant(&self, elem: Elem, lanes: u32, bits: Vec<u64>) -> Val<'c, 'a> {
        if let Some(&value) = self.constants.borrow().get(&(elem, lanes, bits.clone())) {
            return value;
        }
        let r#type = self.r#type(elem, lanes);
        let element = |bits: u64| {
            let text = match elem {
                Elem::F32 => format!("0x{bits:08X} : f32"),
                Elem::F64 => format!("0x{bits:016X} : f64"),
                Elem::I1 | Elem::I16 | Elem::I32 | Elem::I64 | Elem::Ptr => {
                    return IntegerAttribute::new(elem_type(self.context, elem), bits.cast_signed()).into();
                }
            };
            Attribute::parse(self.context, &text).expect("a float attribute")
        };
        let attribute = match (lanes, bits.as_slice()) {
            (1, &[bits]) => element(bits),
            (_, &[bits]) => DenseElementsAttribute::splat(r#type, element(bits)).into(),
            (_, many) => {
                let elements: Vec<_> = many.iter().map(|&b| element(b)).collect();
                DenseElementsAttribute::new(r#type, &elements).expect("as many elements as lanes").into()
            }
        };
        let operation = OperationBuilder::new("arith.constant", self.location)
            .add_results(&[r#type])
            .add_attributes(&[(Identifier::new(self.context, "value"), attribute)])
            .build()
            .expect("a constant");
        let position = self.constants.borrow().len();
        let operation = self.entry.insert_operation(position, operation);
        let value = Val { raw: operation.result(0).expect("one result").into(), elem, lanes };
        self.constants.borrow_mut().insert((elem, lanes, bits), value);
        value
    }

    /// The f32 `value` in each lane.
    pub(in super::super) fn f32(&self, value: f32, lanes: u32) -> Val<'c, 'a> {
        self.constant(Elem::F32, lanes, vec![u64::from(value.to_bits())])
    }

    /// The f64 `value` in each lane.
    pub(in super::super) fn f64(&self, value: f64, lanes: u32) -> Val<'c, 'a> {
        self.constant(Elem::F64, lanes, vec![value.to_bits()])
    }

    /// The integer `value` in each lane.
    pub(in super::super) fn int(&self, elem: Elem, value: i64, lanes: u32) -> Val<'c, 'a> {
        self.constant(elem, lanes, vec![value.cast_unsigned()])
    }

    /// The lane numbers, as i32.
    pub(in super::super) fn iota_i32(&self, lanes: u32) -> Val<'c, 'a> {
        self.constant(Elem::I32, lanes, (0..u64::from(lanes)).collect())
    }

    /// The lane numbers, as i64.
    pub(in super::super) fn iota_i64(&self, lanes: u32) -> Val<'c, 'a> {
        self.constant(Elem::I64, lanes, (0..u64::from(lanes)).collect())
    }

    /// The lane numbers, as f32.
    pub(in super::super) fn iota_f32(&self, lanes: u32) -> Val<'c, 'a> {
        self.constant(Elem::F32, lanes, (0..lanes).map(|l| u64::from((l as f32).to_bits())).collect())
    }
}
