// Asks two libraries for their devices: those that it is given.
#include <dlfcn.h>
#include <stdio.h>

int main(int count, char **names)
{
	for (int index = 1; index < count; index++) {
		void *library = dlopen(names[index], RTLD_NOW | RTLD_LOCAL);
		if (!library) {
			fprintf(stderr, "%s\n", dlerror());
			return 1;
		}
		void **(*list)(int *) = (void **(*)(int *))dlsym(library, "ibv_get_device_list");
		if (!list || !list(NULL))
			return 2;
	}
	return 0;
}
