package org.apache.kafka.storage.internals.log;

import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.File;
import java.io.FileInputStream;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.ScheduledFuture;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * Kafka's own Cleaner on one log: records of a file (lengths and bytes of key and value), the first so many of them
 * clean. In Kafka's package because its constructor is not public. Prints CPU seconds, seconds, rows and the rows left.
 */
public class KafkaClean {
    static final int BATCH = 500;

    static class Never implements Scheduler {
        public void startup() { }
        public void shutdown() { }
        public void resizeThreadPool(int threads) { }
        public ScheduledFuture<?> schedule(String name, Runnable task, long delay, long period) { return null; }
    }

    public static void main(String[] args) throws Exception {
        File records = new File(args[0]), folder = new File(args[1], "topic-0");
        long clean = Long.parseLong(args[2]);
        Properties settings = new Properties();
        settings.setProperty("cleanup.policy", "compact");
        settings.setProperty("segment.ms", String.valueOf(Long.MAX_VALUE));
        settings.setProperty("segment.bytes", String.valueOf(512 << 20));
        UnifiedLog log = UnifiedLog.create(folder, new LogConfig(settings), 0, 0, new Never(), new BrokerTopicStats(),
            Time.SYSTEM, 900000, new ProducerStateManagerConfig(86400000, false), 600000, new LogDirFailureChannel(1),
            true, Optional.empty());
        long rows = fill(log, records, clean);
        log.roll(Optional.empty());
        log.updateHighWatermark(log.logEndOffset());
        Cleaner cleaner = new Cleaner(0, new SkimpyOffsetMap(1 << 30, "MD5"), 1 << 20, 4 << 20, 0.9,
            new Throttler(Double.MAX_VALUE, 300, "io", "bytes", Time.SYSTEM), Time.SYSTEM, partition -> { });
        var threads = ManagementFactory.getThreadMXBean();
        long cpu = threads.getCurrentThreadCpuTime(), wall = System.nanoTime();
        cleaner.doClean(new LogToClean(log, clean, log.activeSegment().baseOffset(), false), System.currentTimeMillis());
        System.out.printf("%.3f %.3f %d %d%n", (threads.getCurrentThreadCpuTime() - cpu) / 1e9,
            (System.nanoTime() - wall) / 1e9, rows, left(log));
    }

    static long fill(UnifiedLog log, File records, long clean) throws Exception {
        long offset = 0;
        try (var in = new DataInputStream(new BufferedInputStream(new FileInputStream(records), 1 << 20))) {
            while (in.available() > 0) {
                MemoryRecordsBuilder batch = MemoryRecords.builder(ByteBuffer.allocate(1 << 17),
                    RecordBatch.MAGIC_VALUE_V2, Compression.zstd().build(), TimestampType.CREATE_TIME, offset,
                    RecordBatch.NO_TIMESTAMP, RecordBatch.NO_PRODUCER_ID, RecordBatch.NO_PRODUCER_EPOCH,
                    RecordBatch.NO_SEQUENCE, false, 0);
                for (int at = 0; at < BATCH && in.available() > 0; at++) {
                    batch.appendWithOffset(offset, 1_700_000_000_000L + offset++, read(in), read(in));
                    if (offset == clean) break;
                }
                log.appendAsFollower(batch.build(), 0);
                if (offset == clean) log.roll(Optional.empty());
            }
        }
        return offset;
    }

    static byte[] read(DataInputStream in) throws Exception {
        int length = Integer.reverseBytes(in.readInt());
        return length < 0 ? null : in.readNBytes(length);
    }

    static long left(UnifiedLog log) throws Exception {
        long rows = 0;
        for (LogSegment segment : log.logSegments())
            for (var batch : segment.log().batches()) rows += batch.countOrNull() == null ? 0 : batch.countOrNull();
        return rows;
    }
}
