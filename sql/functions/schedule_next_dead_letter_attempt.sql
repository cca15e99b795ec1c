-- Not before this time. Returns false when it is recovered already, held or given up.
create or replace function whizbang.schedule_next_dead_letter_attempt(p_dead_letter_id uuid, p_next timestamptz) returns boolean
language plpgsql volatile
as $$
begin
  update whizbang.wh_dead_letters
  set recovery_status = 0, next_recovery_at = p_next
  where dead_letter_id = p_dead_letter_id and recovered_at is null and recovery_status in (0, 1);
  return found;
end
$$;
