-- Records failures of either table; see process_outbox_failures and process_inbox_failures.
create or replace function whizbang.report_failures(
  p_category text, p_instance_id uuid, p_failures jsonb, p_settings jsonb default '{}'
) returns table (message_id uuid, outcome text)
language plpgsql volatile
as $$
begin
  case p_category
    when 'outbox' then
      return query select f.message_id, f.outcome from whizbang.process_outbox_failures(p_instance_id, p_failures, p_settings) f;
    when 'inbox' then
      return query select f.message_id, f.outcome from whizbang.process_inbox_failures(p_instance_id, p_failures, p_settings) f;
    else
      raise exception 'report_failures: % is neither outbox nor inbox', p_category using errcode = 'invalid_parameter_value';
  end case;
end
$$;
