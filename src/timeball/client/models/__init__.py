"""What the API answers with, as typed values, a module for each entity. Fields a newer server adds are ignored; none is
ever required but the ids, so that an older client can read them."""
