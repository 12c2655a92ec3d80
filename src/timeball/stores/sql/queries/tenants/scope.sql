-- What the callers of a tenant see of the fleet.

-- name: profiles_of_tenant
-- The first :limit placement profiles whose text ends like those of a tenant, and is not like those of other tenants.
SELECT profile FROM profiles WHERE profile LIKE :own AND profile NOT LIKE :others ORDER BY profile LIMIT :limit;
