-- Channels belong to the whole database; the schema's name is hashed into ours so that two schemas never wake each other
-- and a name of 63 bytes still fits.
create or replace function whizbang.wake_channel(p_channel text) returns text
language sql immutable parallel safe
as $$ select 'wh_' || p_channel || '_' || left(md5('whizbang'), 16) $$;
