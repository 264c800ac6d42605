//! Rank tables: who is which rank, in JSON.

use super::fault;
use crate::fault::Fault;
use ascend_rs_sys::types::HcclResult;
use serde_json::Value;
use std::hash::{DefaultHasher, Hash, Hasher};

/// What a rank table says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RankTable {
    /// By rank: the number of its device.
    pub(super) devices: Vec<i32>,
    /// The socket where its ranks meet: a function of the table.
    pub(super) socket: String,
}

fn wrong(text: impl Into<String>) -> Fault {
    fault(HcclResult::HCCL_E_PARA, format!("the rank table: {}", text.into()))
}

/// A number, written as such or as a text.
fn number(value: &Value, name: &str) -> Result<u64, Fault> {
    let found = &value[name];
    let number = found.as_u64().or_else(|| found.as_str()?.parse().ok());
    number.ok_or_else(|| wrong(format!("`{name}` is {found}, no number")))
}

impl RankTable {
    /// Reads a table, or the file of that name.
    pub(super) fn read(path_or_json: &str) -> Result<Self, Fault> {
        let text = if path_or_json.trim_start().starts_with('{') {
            path_or_json.to_owned()
        } else {
            std::fs::read_to_string(path_or_json).map_err(|error| {
                fault(HcclResult::HCCL_E_OPEN_FILE_FAILURE, format!("{path_or_json}: {error}"))
            })?
        };
        let table: Value = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        Self::parse(&table)
    }

    fn parse(table: &Value) -> Result<Self, Fault> {
        if table["status"] != "completed" {
            return Err(wrong(format!("`status` is {}, not \"completed\"", table["status"])));
        }
        if !["1.0", "1.2"].iter().any(|version| table["version"] == *version) {
            return Err(wrong(format!("`version` is {}; allowed: \"1.0\", \"1.2\"", table["version"])));
        }
        let servers = table["server_list"].as_array().ok_or_else(|| wrong("`server_list` is no list"))?;
        if number(table, "server_count")? != servers.len() as u64 {
            return Err(wrong(format!("`server_count` is not the {} of `server_list`", servers.len())));
        }
        let mut ranks = Vec::new();
        for server in servers {
            let devices = server["device"].as_array().ok_or_else(|| wrong("`device` is no list"))?;
            for device in devices {
                ranks.push((number(device, "rank_id")?, number(device, "device_id")? as i32));
            }
        }
        ranks.sort_unstable();
        if ranks.is_empty() || ranks.iter().enumerate().any(|(i, (rank, _))| *rank != i as u64) {
            return Err(wrong("`rank_id` must count from 0 without gaps"));
        }
        let mut hasher = DefaultHasher::new();
        table.to_string().hash(&mut hasher);
        let socket = format!("host-cann/table/{:016x}", hasher.finish());
        Ok(Self { devices: ranks.into_iter().map(|(_, device)| device).collect(), socket })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn table() -> Value {
        let device = |rank: u32| json!({"device_id": rank.to_string(), "device_ip": "10.0.0.1", "rank_id": rank.to_string()});
        json!({"status": "completed", "version": "1.0", "server_count": "1",
            "server_list": [{"server_id": "a", "device": [device(1), device(0)]}]})
    }

    #[test]
    fn a_table_names_devices_by_rank() {
        assert_eq!(RankTable::read(&table().to_string()).unwrap().devices, [0, 1]);
    }

    #[test]
    fn every_broken_rule_is_told() {
        type Break = fn(&mut Value);
        let cases: [(Break, &str); 5] = [
            (|t| t["status"] = json!("initializing"), "`status`"),
            (|t| t["version"] = json!("2.0"), "`version`"),
            (|t| t["server_count"] = json!("2"), "`server_count`"),
            (|t| t["server_list"][0]["device"][0]["rank_id"] = json!("2"), "`rank_id` must"),
            (|t| t["server_list"][0]["device"][0]["device_id"] = json!("x"), "`device_id`"),
        ];
        for (spoil, text) in cases {
            let mut table = table();
            spoil(&mut table);
            let fault = RankTable::read(&table.to_string()).unwrap_err();
            assert_eq!(fault.code, HcclResult::HCCL_E_PARA.0);
            assert!(fault.message.contains(text), "{}", fault.message);
        }
        let missing = RankTable::read("/nowhere/table.json").unwrap_err();
        assert_eq!(missing.code, HcclResult::HCCL_E_OPEN_FILE_FAILURE.0);
    }
}
