-- What the callers of a tenant see of the fleet.

-- name: profiles_of_tenant
-- The first :limit placement profiles whose text matches :own (it ends with the label of the tenant; any text for the
-- default tenant) and not :others (it has the label of any tenant).
SELECT profile FROM profiles WHERE profile LIKE :own AND profile NOT LIKE :others ORDER BY profile LIMIT :limit;
