//! Values of the program that are dropped while no lock of the client is held: their `Drop` is the
//! program's code, and may call the client (C-053).
//!
//! The machine drops values under the lock of the engine. While a [`Deferral`] lives, a
//! [`DropLater`] that is dropped gives its value to its thread, and the end of the deferral drops
//! these values.

use std::any::Any;
use std::cell::RefCell;
use std::sync::Arc;

/// A value of the program, of any type.
type AnyValue = Arc<dyn Any + Send + Sync>;

thread_local! {
    /// The values to drop on this thread; `None` while nothing is deferred.
    static DEFERRED: RefCell<Option<Vec<AnyValue>>> = const { RefCell::new(None) };
}

/// Holds a value, and does not drop it while drops are deferred.
pub(crate) struct DropLater(Option<AnyValue>);

/// Defers drops on this thread for as long as it lives.
#[derive(Debug)]
pub(crate) struct Deferral {
    /// True if another deferral was there already; then that one drops the values.
    is_nested: bool,
}

impl DropLater {
    pub(crate) fn new(value: AnyValue) -> Self {
        Self(Some(value))
    }

    /// Returns the value, if it is of this type.
    pub(crate) fn get<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.0.clone()?.downcast().ok()
    }
}

impl Drop for DropLater {
    fn drop(&mut self) {
        let mut value = self.0.take();
        // The value stays here, and is dropped here, if nothing is deferred.
        let _ = DEFERRED.try_with(|deferred| {
            if let Some(deferred) = &mut *deferred.borrow_mut() {
                deferred.extend(value.take());
            }
        });
    }
}

impl Deferral {
    pub(crate) fn begin() -> Self {
        let is_nested = DEFERRED.with(|deferred| {
            let mut deferred = deferred.borrow_mut();
            let is_nested = deferred.is_some();
            deferred.get_or_insert_default();
            is_nested
        });
        Self { is_nested }
    }
}

impl Drop for Deferral {
    fn drop(&mut self) {
        if !self.is_nested {
            let values = DEFERRED.try_with(|deferred| deferred.borrow_mut().take());
            drop(values);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn later(value: &Arc<()>) -> DropLater {
        DropLater::new(Arc::clone(value) as _)
    }

    #[test]
    fn a_value_is_dropped_at_the_end_of_the_outermost_deferral() {
        let value = Arc::new(());
        let outer = Deferral::begin();
        let inner = Deferral::begin();
        drop(later(&value));
        drop(inner);
        assert_eq!(Arc::strong_count(&value), 2);
        drop(outer);
        assert_eq!(Arc::strong_count(&value), 1);
    }

    #[test]
    fn a_value_is_dropped_at_once_if_nothing_is_deferred() {
        let value = Arc::new(());
        drop(later(&value));
        assert_eq!(Arc::strong_count(&value), 1);
    }
}
