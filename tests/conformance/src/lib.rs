//! One suite per port: the same checks on the native fakes and inside workerd.
