-- Adds an operator's note, with time and name, below the notes that are there; past 100,000 characters the
-- oldest go.
create or replace function whizbang.note_dead_letter(p_dead_letter_id uuid, p_actor text, p_note text) returns boolean
language plpgsql volatile
as $$
begin
  update whizbang.wh_dead_letters
  set operator_notes = right(concat_ws(e'\n', operator_notes,
        format('%s %s: %s', to_char(clock_timestamp() at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), p_actor, p_note)), 100000),
      operator_actor = p_actor
  where dead_letter_id = p_dead_letter_id;
  return found;
end
$$;
