-- Dead letters that the recovery worker may look at: pending, not held by an operator, and due or not yet scheduled.
-- Oldest first; those of one stream in their order.
create or replace function whizbang.fetch_dead_letters_due(p_now timestamptz, p_limit integer)
returns setof whizbang.wh_dead_letters
language sql stable
as $$
  select d.*
  from whizbang.wh_dead_letters d
  where d.recovered_at is null and d.recovery_status in (0, 1) and d.operator_disposition not in (2, 3)
    and (d.next_recovery_at is null or d.next_recovery_at <= p_now)
  order by d.dead_lettered_at, d.source_sequence
  limit p_limit;
$$;
