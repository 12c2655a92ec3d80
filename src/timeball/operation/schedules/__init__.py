"""Operations on calendars, backfills and forecasts."""
