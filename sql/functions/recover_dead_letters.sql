-- Brings dead letters back together, in one transaction and in the order given: how those of one stream return (TailAware).
-- Returns the ids of those that came back.
create or replace function whizbang.recover_dead_letters(p_dead_letter_ids uuid[]) returns setof uuid
language plpgsql volatile
as $$
declare
  v_id uuid;
begin
  foreach v_id in array p_dead_letter_ids loop
    if whizbang.recover_dead_letter(v_id) then
      return next v_id;
    end if;
  end loop;
end
$$;
