-- Gives a dead letter up for good. Returns false when it is recovered or given up already, or was just given another try.
create or replace function whizbang.mark_dead_letter_permanently_failed(p_dead_letter_id uuid) returns boolean
language plpgsql volatile
as $$
begin
  update whizbang.wh_dead_letters
  set recovery_status = 4, next_recovery_at = null, parks_stream = false
  where dead_letter_id = p_dead_letter_id and recovered_at is null and recovery_status <> 4
    and operator_disposition <> 1;
  return found;
end
$$;
