-- A new build gets one try at every dead letter that it has not had: due at once, pending again, one attempt granted beyond
-- the budget. Leaves out what is given up and what an operator holds for ever; what is held for review is included.
-- Idempotent: whichever instance is first does it. Returns how many rows it scheduled.
create or replace function whizbang.reset_dead_letters_for_generation(p_generation text) returns integer
language plpgsql volatile
as $$
declare
  v_count integer;
begin
  update whizbang.wh_dead_letters
  set next_recovery_at = clock_timestamp(), recovery_status = 0,
      -- One that was granted and not used yet is enough.
      granted_attempts = granted_attempts + case when operator_disposition = 1 then 0 else 1 end,
      operator_disposition = 1,
      retried_on_generations = retried_on_generations || p_generation
  where recovered_at is null and recovery_status <> 4 and operator_disposition not in (2, 3)
    and envelope is not null and generation <> p_generation
    and not (p_generation = any (retried_on_generations));
  get diagnostics v_count = row_count;
  if v_count > 0 then
    perform whizbang.ring_doorbell('deadletter');
  end if;
  return v_count;
end
$$;
