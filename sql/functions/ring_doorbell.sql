-- Wakes the sleepers of a channel, if there are any. NOTIFY takes a lock on the whole database until the commit is on
-- disk (32 writers fell from 2,430 to 462 commits/s), so it is issued only while somebody sleeps.
--
-- The caller has written its rows before. Under READ COMMITTED the look at the doorbells is a later snapshot than the
-- sleeper's arming, or the sleeper's look for work is later than our commit. Above READ COMMITTED the look may be older
-- than an arming that has committed meanwhile: such a writer always rings.
create or replace function whizbang.ring_doorbell(p_channel text) returns void
language plpgsql volatile
as $$
begin
  if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted')
     or exists (select 1 from whizbang.wh_doorbells where channel = p_channel)
  then
    perform pg_notify(whizbang.wake_channel(p_channel), '');
  end if;
end
$$;
