-- Brings the dead letters of one stream back together, in one transaction and in their order (TailAware). Returns the ids
-- of the dead letters that came back.
create or replace function whizbang.recover_dead_letter_stream(
  p_source_table text, p_stream_id uuid, p_limit integer default 1000
) returns setof uuid
language plpgsql volatile
as $$
declare
  v_id uuid;
begin
  for v_id in
    select d.dead_letter_id from whizbang.wh_dead_letters d
    where d.stream_id = p_stream_id and d.source_table = p_source_table and d.recovered_at is null
      and d.recovery_status in (0, 1) and d.operator_disposition not in (2, 3)
    order by d.source_sequence
    limit p_limit
  loop
    if whizbang.recover_dead_letter(v_id) then
      return next v_id;
    end if;
  end loop;
end
$$;
