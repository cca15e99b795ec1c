-- An operator's last word: never again. False when it is recovered already.
create or replace function whizbang.give_up_dead_letter(p_dead_letter_id uuid, p_actor text) returns boolean
language plpgsql volatile
as $$
begin
  update whizbang.wh_dead_letters
  set recovery_status = 4, next_recovery_at = null, operator_disposition = 3, operator_actor = p_actor, parks_stream = false
  where dead_letter_id = p_dead_letter_id and recovered_at is null;
  return found;
end
$$;
