"""The store as a set of protocols, one for each subject. `store.Store` combines them."""
