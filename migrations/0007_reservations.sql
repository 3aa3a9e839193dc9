-- Before Services' addresses were reserved by IPAddress objects they were so by entries of their own, which nothing reads any more and nobody
-- sees: they go without a change in the log. Those of node ports stay, they are in use.
DO $$
BEGIN
    PERFORM howdah.lock_writers();
    DELETE FROM howdah.object o WHERE o.key LIKE '/howdah/reservation/clusterips/%';
END $$;
