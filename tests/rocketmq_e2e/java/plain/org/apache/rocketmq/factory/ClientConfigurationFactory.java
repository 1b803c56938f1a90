package org.apache.rocketmq.factory;

import java.time.Duration;
import org.apache.rocketmq.account.Account;
import org.apache.rocketmq.client.apis.ClientConfiguration;

/** Instead of the suite's: clients without TLS and credentials. */
public class ClientConfigurationFactory {
    private static final Duration REQUEST_TIMEOUT = Duration.ofSeconds(10);

    public static ClientConfiguration build(Account account) {
        return ClientConfiguration.newBuilder()
                .setEndpoints(account.getEndpoint())
                .setRequestTimeout(REQUEST_TIMEOUT)
                .enableSsl(false)
                .build();
    }
}
