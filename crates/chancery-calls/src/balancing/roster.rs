//! An ordered list with one item for each endpoint, which is made anew by each update.
//!
//! Most updates replace a few of many endpoints. An item that stays where it is is looked at once, and neither
//! hashed nor moved. Not here: the items.

use std::collections::HashMap;

use super::endpoint::{Endpoint, EndpointKey};

/// The items of endpoints, in the order of the endpoints.
#[derive(Debug)]
pub(super) struct Roster<T> {
    items: Vec<T>,
    places: HashMap<EndpointKey, usize>,
}

/// An item of an endpoint.
pub(super) trait OfEndpoint {
    /// Returns the identity of the endpoint.
    fn key(&self) -> &EndpointKey;
}

/// The answer to an endpoint of an update.
pub(super) enum Seated {
    /// Its item is at the place now.
    Known,
    /// There is no item of it so far: one is to be [inserted](Roster::insert) at the place.
    New(EndpointKey),
    /// It was there before in the same update.
    Twice,
}

impl<T: OfEndpoint> Roster<T> {
    pub(super) fn items(&self) -> &[T] {
        &self.items
    }

    pub(super) fn items_mut(&mut self) -> &mut [T] {
        &mut self.items
    }

    pub(super) fn place_of(&self, key: &EndpointKey) -> Option<usize> {
        self.places.get(key).copied()
    }

    pub(super) fn get(&self, key: &EndpointKey) -> Option<&T> {
        self.items.get(self.place_of(key)?)
    }

    /// Brings the item of an endpoint to this place. The places before it have the endpoints of the update that
    /// came before.
    pub(super) fn seat(&mut self, place: usize, endpoint: &Endpoint) -> Seated {
        if self.items.get(place).is_some_and(|item| item.key().is_of(endpoint)) {
            return Seated::Known;
        }
        let key = endpoint.key();
        match self.place_of(&key) {
            None => Seated::New(key),
            Some(known) if known < place => Seated::Twice,
            Some(known) => {
                self.exchange(place, known);
                Seated::Known
            }
        }
    }

    /// Puts the item of an endpoint that is [new](Seated::New) at this place.
    pub(super) fn insert(&mut self, place: usize, item: T) {
        self.places.insert(item.key().clone(), self.items.len());
        self.items.push(item);
        self.exchange(place, self.items.len() - 1);
    }

    /// Takes out the items from this place on.
    pub(super) fn cut(&mut self, place: usize) -> Vec<T> {
        let gone = self.items.split_off(place.min(self.items.len()));
        for item in &gone {
            self.places.remove(item.key());
        }
        gone
    }

    fn exchange(&mut self, one: usize, other: usize) {
        if one == other {
            return;
        }
        self.items.swap(one, other);
        for place in [one, other] {
            self.places.insert(self.items[place].key().clone(), place);
        }
    }
}

impl<T> Default for Roster<T> {
    fn default() -> Self {
        Self { items: Vec::new(), places: HashMap::new() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{Dice, SeededDice};

    #[derive(Debug)]
    struct Item {
        key: EndpointKey,
        /// The number of the update that it came with.
        since: usize,
    }

    impl OfEndpoint for Item {
        fn key(&self) -> &EndpointKey {
            &self.key
        }
    }

    fn endpoint(ports: &[u16]) -> Endpoint {
        let addresses: Arc<[_]> = ports.iter().map(|port| ([127, 0, 0, 1], *port).into()).collect();
        Endpoint { addresses, ..Endpoint::at(([127, 0, 0, 1], ports[0]).into()) }
    }

    fn update(roster: &mut Roster<Item>, endpoints: &[Endpoint], since: usize) -> Vec<Item> {
        let mut place = 0;
        for endpoint in endpoints {
            match roster.seat(place, endpoint) {
                Seated::Known => {}
                Seated::New(key) => roster.insert(place, Item { key, since }),
                Seated::Twice => continue,
            }
            place += 1;
        }
        roster.cut(place)
    }

    #[test]
    fn items_stay_with_their_endpoints_in_any_order() {
        // gRFC A61
        let mut dice = SeededDice(3);
        let mut roster = Roster::default();
        let mut since = HashMap::<EndpointKey, usize>::new();
        for round in 0..2_000 {
            let count = dice.below(12);
            let ports = (0..count).map(|_| u16::try_from(dice.below(16)).unwrap());
            let drawn: Vec<_> = ports.map(|port| endpoint(&[port])).collect();
            let gone = update(&mut roster, &drawn, round);
            let mut expected = Vec::new();
            for key in drawn.iter().map(Endpoint::key) {
                if !expected.contains(&key) {
                    expected.push(key);
                }
            }
            for item in gone {
                assert!(!expected.contains(&item.key));
                assert_eq!(since.remove(&item.key), Some(item.since));
            }
            let found: Vec<_> = roster.items().iter().map(|item| item.key.clone()).collect();
            assert_eq!(found, expected);
            for (place, item) in roster.items().iter().enumerate() {
                assert_eq!(roster.place_of(&item.key), Some(place));
                assert_eq!(*since.entry(item.key.clone()).or_insert(round), item.since);
            }
            assert_eq!(roster.places.len(), roster.items().len());
            assert_eq!(since.len(), expected.len());
        }
    }

    #[test]
    fn the_order_of_addresses_does_not_matter() {
        // gRFC A61
        let mut roster = Roster::default();
        update(&mut roster, &[endpoint(&[1, 2]), endpoint(&[3])], 0);
        assert!(update(&mut roster, &[endpoint(&[2, 1]), endpoint(&[3])], 1).is_empty());
        assert_eq!(roster.items()[0].since, 0);
    }
}
