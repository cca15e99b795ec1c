-- Leaves a dead letter to an operator. Returns false when it is recovered, held or given up already, or was just given another try.
create or replace function whizbang.mark_dead_letter_holding(p_dead_letter_id uuid) returns boolean
language plpgsql volatile
as $$
begin
  update whizbang.wh_dead_letters
  set recovery_status = 2, next_recovery_at = null
  where dead_letter_id = p_dead_letter_id and recovered_at is null and recovery_status in (0, 1)
    and operator_disposition <> 1;
  return found;
end
$$;
