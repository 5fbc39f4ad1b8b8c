// Prints what the functions answer that need no device, over more than their whole range.
#include <infiniband/verbs.h>
#include <stdio.h>

int main(void)
{
	for (int value = -2; value < 12; value++)
		printf("node type %d: %s\n", value, ibv_node_type_str(value));
	for (int value = -2; value < 12; value++)
		printf("port state %d: %s\n", value, ibv_port_state_str(value));
	for (int value = -2; value < 40; value++)
		printf("event %d: %s\n", value, ibv_event_type_str(value));
	for (int value = -2; value < 40; value++)
		printf("status %d: %s\n", value, ibv_wc_status_str(value));
	for (int value = -2; value < 40; value++)
		printf("rate %d: %d %d\n", value, ibv_rate_to_mult(value), ibv_rate_to_mbps(value));
	for (int value = -2; value < 600; value++)
		printf("multiple %d: %d\n", value, mult_to_ibv_rate(value));
	for (int value = -2; value < 1300000; value++)
		if (mbps_to_ibv_rate(value))
			printf("megabits %d: %d\n", value, mbps_to_ibv_rate(value));
	printf("fork: %d\n", ibv_fork_init());
	return 0;
}
