-- An operator's hold: neither the policy nor a new generation touches it. False when it is recovered already.
create or replace function whizbang.hold_dead_letter(p_dead_letter_id uuid, p_actor text) returns boolean
language plpgsql volatile
as $$
begin
  update whizbang.wh_dead_letters
  set recovery_status = 2, next_recovery_at = null, operator_disposition = 2, operator_actor = p_actor
  where dead_letter_id = p_dead_letter_id and recovered_at is null;
  return found;
end
$$;
