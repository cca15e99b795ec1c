-- An operator's retry: due at once, one attempt granted beyond the budget, whatever held it. False when it is recovered
-- already or has no envelope to bring back.
create or replace function whizbang.retry_dead_letter(p_dead_letter_id uuid, p_actor text) returns boolean
language plpgsql volatile
as $$
begin
  update whizbang.wh_dead_letters
  set recovery_status = 0, next_recovery_at = clock_timestamp(),
      -- One that was granted and not used yet is enough.
      granted_attempts = granted_attempts + case when operator_disposition = 1 then 0 else 1 end,
      operator_disposition = 1, operator_actor = p_actor
  where dead_letter_id = p_dead_letter_id and recovered_at is null and envelope is not null;
  if not found then
    return false;
  end if;
  perform whizbang.ring_doorbell('deadletter');
  return true;
end
$$;
