//! The Worker's variables, read once per isolate.

use domain::settings::{SettingError, Settings};
use worker::Env;

/// Reads and checks every variable. The error names the variable, never its value.
pub fn read(env: &Env) -> Result<Settings, SettingError> {
    Settings::read(&|name| env.var(name).ok().map(|var| var.to_string()))
}
